"""A full disk, a read-only disk and a file that may not grow: refused, healed, nothing lost.

The disks are file systems in memory, which only root may mount. The limit of a file's size works
for everybody.
"""

import contextlib
import os
import resource
import signal
import subprocess
import sys

import pytest
from tests.e2e.conftest import start_server, stop_server
from tests.e2e.controller_process import environment, wait_for
from tests.faults.api_connection import ApiConnection

from pykueue.apiserver.store.log import StoreError
from pykueue.apiserver.store.rows import StoreKey
from pykueue.apiserver.store.sqlite import SqliteLog
from pykueue.apiserver.store.store import Store

NOTHING_KEPT = "nothing of it was kept"
DISK_BYTES = 12 << 20
WRITE_BYTES = 60_000


@pytest.fixture
def disk(tmp_path):
    """A small file system."""
    directory = tmp_path / "disk"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a disk can be mounted by root only")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@contextlib.contextmanager
def serving(directory, *options):
    """The process of a server and a connection to it."""
    server = start_server(directory, *options)
    try:
        with contextlib.closing(ApiConnection(server)) as api:
            yield server.process, api
    finally:
        stop_server(server)


def create_until_refused(api, prefix):
    """The names of the objects that were created, and the answer of the first that was not."""
    names = []
    code, body = api.create(f"{prefix}0", WRITE_BYTES)
    while code == 201:
        names.append(body["metadata"]["name"])
        assert len(names) < 2000, "the disk never becomes full"
        code, body = api.create(f"{prefix}{len(names)}", WRITE_BYTES)
    return names, (code, body["message"])


def test_a_full_disk_refuses_writes_and_heals(disk):
    ballast = disk / "ballast"
    with serving(disk / "data", "--no-controllers") as (process, api):
        ballast.write_bytes(b"x" * (4 << 20))
        names, (code, message) = create_until_refused(api, "a")
        assert code == 500
        assert "No space is left for" in message
        assert "Free some space and try again" in message
        assert api.names() == set(names), "it still answers, and nothing of the refused write is there"
        ballast.unlink()
        assert api.create("healed")[0] == 201
        assert api.request("DELETE", "/api/v1/namespaces/default/configmaps/a0")[0] == 200
        process.send_signal(signal.SIGKILL)
        process.wait()
    with serving(disk / "data", "--no-controllers") as (_, api):
        assert api.names() == {*names[1:], "healed"}


def test_a_full_disk_does_not_stop_the_controllers(disk):
    ballast = disk / "ballast"
    queue = {"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}}}
    with serving(disk / "data") as (_, api):
        assert api.request("POST", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", queue)[0] == 201
        with contextlib.suppress(OSError), ballast.open("wb") as file:
            for _ in range(DISK_BYTES):
                file.write(b"x" * 4096)
                file.flush()
        create_until_refused(api, "a")
        ballast.unlink()
        local = {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}}
        path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues"
        assert api.request("POST", path, local)[0] == 201
        wait_for(
            lambda: "conditions" in api.request("GET", f"{path}/lq")[1].get("status", {}), "the queue gets a status"
        )


async def test_a_disk_that_becomes_read_only_refuses_writes_and_heals(tmp_path):
    """As after an error of the disk, when the kernel allows no more writes to open files."""
    store = Store(log := SqliteLog(tmp_path))
    await written(store, "before")
    log._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match=NOTHING_KEPT):
        await written(store, "refused")
    assert [stored.key.name for stored in store.select("", "configmaps")] == ["before"]
    log._connection.execute("PRAGMA query_only = OFF")
    revision = await written(store, "after")
    assert revision == 2, "a refused write uses no revision"
    await store.close()
    store = Store(SqliteLog(tmp_path))
    assert [stored.key.name for stored in store.select("", "configmaps")] == ["after", "before"]
    await store.close()


async def written(store, name):
    stored = store.put(StoreKey("", "configmaps", "default", name), {"metadata": {"name": name}})
    await store.settled(stored.revision)
    return stored.revision


def started(directory):
    """The exit code and the errors of a start that fails."""
    command = [sys.executable, "-m", "pykueue", "up", "--runtime", "none", "--data-dir", str(directory)]
    done = subprocess.run(
        [*command, "--listen", "127.0.0.1:0"],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    return done.returncode, done.stderr


def test_a_start_on_a_full_or_read_only_disk_says_why(disk):
    with contextlib.suppress(OSError), (disk / "ballast").open("wb") as file:
        for _ in range(DISK_BYTES):
            file.write(b"x" * 4096)
            file.flush()
    code, errors = started(disk / "data")
    assert (code, "Traceback" in errors) == (1, False), errors
    assert "space" in errors or "full" in errors, errors
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    code, errors = started(disk / "other")
    assert (code, "Traceback" in errors) == (1, False), errors
    assert "Read-only file system" in errors
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    (disk / "ballast").unlink()
    with serving(disk / "data", "--no-controllers") as (_, api):
        assert api.create("a")[0] == 201, "a start that failed leaves nothing that is in the way"


def test_a_file_that_may_not_grow_refuses_writes_and_heals(tmp_path):
    with serving(tmp_path / "data", "--no-controllers") as (process, api):
        pid = process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (6 << 20, limits[1]))
        names, (code, message) = create_until_refused(api, "a")
        assert code == 500
        assert NOTHING_KEPT in message or "No space is left" in message
        assert api.names() == set(names)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
        assert api.create("healed")[0] == 201
        assert api.names() == {*names, "healed"}
