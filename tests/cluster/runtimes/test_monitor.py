"""Logs keep their last bytes while the process writes on."""

import os

import pytest
from tests.cluster.runtimes.test_process import log_of, shell
from tests.cluster.waiting import eventually

from pykueue.cluster.kubelet import logs
from pykueue.cluster.kubelet.logs import Query
from pykueue.cluster.runtimes import monitor
from pykueue.cluster.runtimes.monitor import ContainerLimits
from pykueue.cluster.runtimes.process import ProcessRuntime

LIMIT = 1 << 20


def allocated(path):
    return path.stat().st_blocks * 512


async def read(path, **query):
    return b"".join([chunk async for chunk in logs.stream(path, Query(**query), lambda: False)])


@pytest.fixture
def long_log(tmp_path):
    """A log of 4 MiB in lines of 16 bytes."""
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %010d\n" % number for number in range(LIMIT // 4)))
    return path


async def test_a_container_cannot_fill_the_disk_with_its_log(tmp_path):
    runtime = ProcessRuntime(tmp_path, ContainerLimits(log_bytes=LIMIT, interval_seconds=0.02))
    request = shell(f"while [ ! -e {tmp_path}/stop ]; do seq 1000; done; echo last")
    container = await runtime.start(request)
    log = runtime.log(request.pod, "main", 0)
    await eventually(lambda: log.stat().st_size > 8 * LIMIT and allocated(log) < 4 * LIMIT)
    (tmp_path / "stop").touch()
    assert (await container.wait()).code == 0
    assert log_of(runtime, request).endswith("last\n")


async def test_the_newest_lines_are_left(long_log):
    newest = long_log.read_bytes()[-LIMIT // 2 :]
    monitor.bound_log(long_log, LIMIT)
    assert allocated(long_log) <= LIMIT
    assert (await read(long_log)).endswith(newest)
    assert (await read(long_log)).startswith(b"line ")
    assert (await read(long_log, tail_lines=2)).splitlines() == newest.splitlines()[-2:]


async def test_a_tail_longer_than_what_is_left(long_log):
    monitor.bound_log(long_log, LIMIT)
    assert await read(long_log, tail_lines=10**9) == await read(long_log)


async def test_a_short_log_stays_whole(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    monitor.bound_log(path, LIMIT)
    assert await read(path) == b"one\ntwo\n"


async def test_a_log_that_is_one_hole_is_empty(tmp_path):
    path = tmp_path / "log"
    path.touch()
    os.truncate(path, 1 << 40)
    assert await read(path) == b""
    assert await read(path, tail_lines=5) == b""


async def test_the_process_of_a_log_that_was_shortened_appends(long_log):
    with long_log.open("ab", buffering=0) as file:
        monitor.bound_log(long_log, LIMIT)
        file.write(b"more\n")
    assert (await read(long_log)).endswith(b"\nmore\n")
