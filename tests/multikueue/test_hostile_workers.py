"""A worker is another cluster, and may send anything: others are not affected."""

import asyncio
import copy
import random
import tracemalloc
from functools import partial

import pytest
from tests.multikueue.fleet import job, play

from pykueue.api import objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.labels import MULTI_KUEUE_ORIGIN
from pykueue.controllers.multikueue.worker_client import WorkerClient, WorkerError
from pykueue.kube.access import Access
from pykueue.kube.client import ListOptions, ObjectList
from pykueue.kube.http_client import HttpClient, ResponseLimits

ANYTHING = (None, 5, -1.5, True, "x", [], [1], ["x"], {}, {"a": 1}, [{}], [{"type": 5}], "9" * 5000)


def places(value, path=()):
    """The paths of all values inside."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield from places(child, (*path, key))


def changed(value, path, new):
    if not path:
        return new
    value[path[0]] = changed(value[path[0]], path[1:], new)
    return value


class Tamper:
    """Puts something else into one place of some objects."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self.count = 0

    def __call__(self, obj):
        if self._random.random() < 0.5:
            return obj
        self.count += 1
        obj = copy.deepcopy(obj)
        path = self._random.choice([path for path in places(obj) if path])
        return changed(obj, path, self._random.choice(ANYTHING))


@pytest.mark.parametrize("seed", range(4))
def test_jobs_of_another_worker_go_on(seed):
    async def story(fleet):
        tamper = fleet.links["worker1"].tamper = Tamper(seed)
        for number in range(6):
            await fleet.manager.client.create(resources.JOB, job(f"job{number}"), "default")
        fleet.links["worker1"].cut()
        await asyncio.sleep(5)
        fleet.links["worker1"].restore()
        for number in range(6):
            await fleet.until(fleet.is_finished, f"job{number}", seconds=3000)
        assert tamper.count

    play(story, seed=seed, configuration={"multiKueue": {"workerLostTimeout": "30s"}})


class Worker:
    """A client whose server answers with one object."""

    def __init__(self, obj):
        self.object = obj

    async def get(self, *_arguments):
        return self.object

    async def list(self, *_arguments):
        return ObjectList(items=[self.object], resource_version="7", continue_token="more", size_bytes=2**20)


def workload(**metadata):
    identity = {"name": "w", "namespace": "ml", "uid": "u", "resourceVersion": "7"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {**identity, "labels": {MULTI_KUEUE_ORIGIN: "manager"}, **metadata},
        "spec": {"queueName": "q", "podSets": []},
    }


def client(obj):
    return WorkerClient(Worker(obj), origin="manager", unlabelled=())


@pytest.mark.parametrize(
    "obj",
    [
        workload(labels={MULTI_KUEUE_ORIGIN: "another"}),
        workload(labels={}),
        workload(resourceVersion="x"),
        workload(resourceVersion="9" * 5000),
        workload(ownerReferences="x"),
        {**workload(), "status": []},
        {**workload(), "status": {"conditions": 5}},
        {**workload(), "spec": {"podSets": [5]}},
    ],
    ids=range(8),
)
async def test_a_worker_sends_only_valid_objects_of_its_manager(obj):
    with pytest.raises(WorkerError):
        await client(obj).list(resources.WORKLOAD)
    assert objects.name(await client(workload()).get(resources.WORKLOAD, "w", "ml")) == "w"


async def read_all(worker):
    page = await worker.list(resources.WORKLOAD)
    while page.continue_token:
        page = await worker.list(resources.WORKLOAD, "", ListOptions(continue_token=page.continue_token))


async def test_a_list_ends():
    with pytest.raises(WorkerError, match="does not end"):
        await read_all(client(workload()))


# What a server may send


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ENDLESS = b"x" * 2**16
ANSWERS = {
    "an endless body": (HEAD + b"\r\n", ENDLESS),
    "an endless line": (HEAD + b"\r\n{", ENDLESS),
    "endless chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + ENDLESS + b"\r\n"),
    "an endless head": (b"HTTP/1.1 200 OK\r\n", b"a: " + ENDLESS + b"\r\n"),
    "an endless chunk size": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 2**16),
    "a chunk size that is no number": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b""),
    "a negative chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n", b""),
    "a length that is no number": (HEAD + b"Content-Length: many\r\n\r\n", b""),
    "a short body": (HEAD + b"Content-Length: 5\r\n\r\n{", b""),
    "deep": (HEAD + b"Content-Length: 20000\r\n\r\n" + b"[" * 20000, b""),
    "no object": (HEAD + b"Content-Length: 1\r\n\r\n5", b""),
    "items that are none": (HEAD + b'Content-Length: 13\r\n\r\n{"items":[5]}', b""),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", b""),
    "events that are none": (HEAD + b'Content-Length: 9\r\n\r\n{"a":[]}\n', b""),
    "a redirect": (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", b""),
}


async def answer(head, rest, _reader, writer):
    try:
        writer.write(head)
        while rest:
            writer.write(rest)
            await writer.drain()
        await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def ask(worker, verb):
    if verb == "list":
        await worker.list(resources.WORKLOAD)
    elif verb == "get":
        await worker.get(resources.WORKLOAD, "w", "ml")
    else:
        async for _ in worker.watch(resources.WORKLOAD):
            pass
        raise ConnectionError("the watch has ended")


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("verb", ["list", "watch", "get"])
async def test_a_server_may_answer_anything(name, verb):
    server = await asyncio.start_server(partial(answer, *ANSWERS[name]), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    limits = ResponseLimits(response_bytes=2**22, line_bytes=2**20, watch_bytes=2**22)
    worker = WorkerClient(
        HttpClient(Access(server=f"http://127.0.0.1:{port}"), limits=limits), origin="manager", unlabelled=()
    )
    tracemalloc.start()
    try:
        async with asyncio.timeout(30):
            with pytest.raises((ApiError, OSError)):
                await ask(worker, verb)
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
        await worker.close()
        server.close()
