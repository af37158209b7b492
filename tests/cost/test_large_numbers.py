"""A number in a request orders no more work than the cluster does at once, whatever it is."""

import asyncio
import copy
import resource
import time

import pytest
from tests.cost import object_templates
from tests.cost.flood import session_of

LARGEST = 2**31 - 1
LONGEST_SECONDS = 2.0
MOST_BYTES = 4 << 30
"""A server that fails this test does not take the memory of the machine."""
KINDS = ("jobs", "cronjobs", "deployments", "replicasets", "statefulsets", "replicationcontrollers", "daemonsets")
FRAMEWORKS = ("pytorchjobs", "mpijobs", "jobsets", "rayjobs", "rayclusters", "trainjobs", "leaderworkersets")
NUMBERS = ("replicas", "parallelism", "completions", "size", "numNodes", "maxReplicas", "backoffLimit", "minReplicas")
"""Fields that are absent in a template get the number, too, where another one of them is."""


def large_objects():
    for path, template in object_templates.NAMESPACED.items():
        if path.rpartition(" ")[2] in KINDS + FRAMEWORKS:
            for fields in _places(template):
                yield pytest.param(path, fields, id=f"{path.rpartition(' ')[2]}-{'.'.join(map(str, fields))}")


def _places(value, fields=()):
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, int) and not isinstance(item, bool) and key in NUMBERS:
                yield (*fields, key)
            yield from _places(item, (*fields, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*fields, index))


def _with_number(template, fields):
    """The object with the largest number at one place, and not suspended."""
    obj = copy.deepcopy(template)
    *parents, last = fields
    target = obj
    for part in parents:
        target = target[part]
    target[last] = LARGEST
    for part in (obj["spec"], obj["spec"].get("jobTemplate", {}).get("spec", {})):
        part.pop("suspend", None)
    if "podManagementPolicy" not in obj["spec"] and "serviceName" in obj["spec"]:
        obj["spec"]["podManagementPolicy"] = "Parallel"
    return obj


@pytest.fixture(scope="module")
def limited_namespace(server):
    """A namespace with few pods, so that what is measured is the decision to create them."""
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_AS)
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (MOST_BYTES, hard))
    asyncio.run(_create_namespace(server))
    yield "numbers"
    assert "Traceback" not in (server.directory.parent / "data.log").read_text()


async def _create_namespace(server):
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "5", "count/jobs.batch": "5"}}}
    async with session_of(server.kubeconfig, 1) as session:
        for path, obj in (
            ("/api/v1/namespaces", {"metadata": {"name": "numbers"}}),
            ("/api/v1/namespaces/numbers/resourcequotas", quota),
        ):
            async with session.post(path, json=obj) as answer:
                assert answer.status == 201, await answer.text()


@pytest.mark.parametrize(("path", "fields"), [*large_objects()])
async def test_the_largest_number_stops_nobody(server, limited_namespace, path, fields):
    prefix, _, plural = path.partition(" ")
    obj = _with_number(object_templates.NAMESPACED[path], fields) | {"metadata": {"name": "large"}}
    url = f"/{prefix}/namespaces/{limited_namespace}/{plural}"
    async with session_of(server.kubeconfig, 1) as session:
        async with session.post(url, json=obj) as answer:
            assert answer.status in (201, 403, 422), await answer.text()
        waits = []
        for _ in range(10):
            began = time.monotonic()
            async with session.get("/api/v1/namespaces/default") as answer:
                assert answer.status == 200
            waits.append(time.monotonic() - began)
        async with session.delete(f"{url}/large?propagationPolicy=Background") as answer:
            assert answer.status in (200, 404)
    assert max(waits) < LONGEST_SECONDS
