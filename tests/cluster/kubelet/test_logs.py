import asyncio
import os
import tracemalloc

import pytest

from pykueue.api.errors import ApiError
from pykueue.cluster.kubelet import logs
from pykueue.cluster.kubelet.logs import Query


def pod(*names, restarts=0):
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": name} for name in names]},
        "status": {"containerStatuses": [{"name": name, "restartCount": restarts, "state": {}} for name in names]},
    }


async def read(source, is_running=lambda: False, **query):
    return b"".join([chunk async for chunk in logs.stream(source, Query(**query), is_running)]).decode()


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.write_text("one\ntwo\nthree\n")
    return path


@pytest.mark.parametrize(("lines", "text"), [(0, ""), (1, "three\n"), (2, "two\nthree\n"), (9, "one\ntwo\nthree\n")])
async def test_tail(log, lines, text):
    assert await read(log, tail_lines=lines) == text


async def test_limit(log):
    assert await read(log, limit_bytes=5) == "one\nt"


async def test_following_ends_with_the_container(log):
    running = True

    async def write_more():
        nonlocal running
        with log.open("a") as file:
            file.write("four\n")
        running = False

    reading = asyncio.ensure_future(read(log, lambda: running, follow=True))
    await asyncio.sleep(0)
    await write_more()
    assert await reading == "one\ntwo\nthree\nfour\n"


def test_several_containers_need_a_name():
    with pytest.raises(ApiError, match=r"a container name must be specified for pod p, choose one of: \[a b\]"):
        logs.find(pod("a", "b"), Query(), lambda *_: b"text")


def test_an_unknown_container_is_refused():
    with pytest.raises(ApiError, match="container x is not valid for pod p"):
        logs.find(pod("a"), Query(container="x"), lambda *_: b"text")


def test_a_container_that_has_not_begun():
    with pytest.raises(ApiError, match='container "a" in pod "p" is waiting to start: ContainerCreating'):
        logs.find(pod("a"), Query(), lambda *_: None)


def test_the_previous_attempt():
    assert (
        logs.find(pod("a", restarts=2), Query(previous=True), lambda _pod, name, attempt: f"{name}{attempt}".encode())
        == b"a1"
    )


def test_there_was_no_previous_attempt():
    with pytest.raises(ApiError, match='previous terminated container "a" in pod "p" not found'):
        logs.find(pod("a"), Query(previous=True), lambda *_: b"text")


@pytest.mark.parametrize("state", ["state", "lastState"])
def test_a_container_that_could_not_start_says_why(state):
    failed = pod("main")
    message = 'exec: "nope": executable file not found in $PATH'
    failed["status"]["containerStatuses"][0][state] = {"terminated": {"reason": "StartError", "message": message}}
    with pytest.raises(ApiError, match=r"StartError: exec: .nope.: executable file not found"):
        logs.find(failed, Query(), lambda *_: None)


@pytest.mark.parametrize("text", ["", "\n", "a", "a\n\n\nb", "long line\nb\n", "\n\n\n\n\n", "abcdefghijkl\nm\nnopq\n"])
async def test_tail_over_the_borders_of_blocks(tmp_path, monkeypatch, text):
    monkeypatch.setattr(logs, "_CHUNK", 4)
    (tmp_path / "log").write_text(text)
    for lines in range(8):
        expected = text.splitlines(keepends=True)[-lines:] if lines else []
        assert await read(tmp_path / "log", tail_lines=lines) == "".join(expected)


async def test_the_tail_of_an_endless_hole_costs_little_memory(tmp_path, monkeypatch):
    """A process may lengthen its own log without writing to it."""
    monkeypatch.setattr(logs, "_LONGEST_READ", 1 << 26)
    (tmp_path / "log").write_text("one\n")
    os.truncate(tmp_path / "log", 1 << 40)
    tracemalloc.start()
    try:
        assert await read(tmp_path / "log", tail_lines=5, limit_bytes=2) == "\0\0"
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()
