"""`pykueue explain` against an API server in this process, over real HTTPS."""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from pykueue.api import registry
from pykueue.api.scheme import Settings
from pykueue.apiserver.embedded import EmbeddedApi, Place
from pykueue.cli.main import cli
from pykueue.controllers import kinds
from pykueue.kube import access
from pykueue.kube.http_client import HttpClient

JOBS = registry.scheme().for_path("batch", "v1", "jobs").resource


def pod_set(cpu):
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}


def workload(name, cpu, **metadata):
    return {
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"queueName": "main", "podSets": [pod_set(cpu)]},
    }


CLUSTER_QUEUE = {
    "metadata": {"name": "team-a"},
    "spec": {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
            }
        ],
    },
}


async def fill(kubeconfig):
    client = HttpClient(await access.from_kubeconfig(kubeconfig))
    try:
        await client.create(kinds.RESOURCE_FLAVOR, {"metadata": {"name": "spot"}, "spec": {}})
        await client.create(kinds.CLUSTER_QUEUE, CLUSTER_QUEUE)
        local_queue = {"metadata": {"name": "main", "namespace": "default"}, "spec": {"clusterQueue": "team-a"}}
        await client.create(kinds.LOCAL_QUEUE, local_queue, "default")
        template = pod_set("6")["template"]
        job = {"metadata": {"name": "train", "namespace": "default"}, "spec": {"suspend": True, "template": template}}
        uid = (await client.create(JOBS, job, "default"))["metadata"]["uid"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
        await client.create(kinds.WORKLOAD, workload("large", "6", ownerReferences=[owner]), "default")
    finally:
        await client.close()


@contextmanager
def served(directory):
    """The API without controllers: nobody decides, `explain` only reads."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    api = EmbeddedApi(Place(directory=directory, host="127.0.0.1", port=0), registry.scheme(), Settings())
    try:
        asyncio.run_coroutine_threadsafe(api.start(), loop).result(30)
        asyncio.run_coroutine_threadsafe(fill(directory / "kubeconfig"), loop).result(30)
        yield directory / "kubeconfig"
    finally:
        asyncio.run_coroutine_threadsafe(api.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def explain(tmp_path_factory):
    with served(tmp_path_factory.mktemp("api")) as kubeconfig:
        yield lambda *words: CliRunner().invoke(cli, ["explain", *words, "--kubeconfig", str(kubeconfig)])


def test_a_workload_is_explained_by_name(explain):
    result = explain("large")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Workload default/large is pending in ClusterQueue team-a, 1 of 1 (priority 0).\n")
    assert "cpu: 6 asked, 4 unused, 2 short (nominal 4, at most 4)" in result.output


@pytest.mark.parametrize("words", [["job", "train"], ["job/train"], ["jobs", "train"]])
def test_a_workload_is_found_by_its_job(explain, words):
    assert explain(*words).output.startswith("Workload default/large")


def test_json_has_quantities(explain):
    found = json.loads(explain("large", "-o", "json").output)
    assert found["remedies"] == [{"kind": "MoreQuota", "amounts": {"spot": {"cpu": "2"}}}]


def test_an_unknown_name_is_one_line(explain):
    result = explain("job", "nobody")
    assert (result.exit_code, result.output) == (1, 'Error: workload of job "nobody" not found in namespace default\n')


def test_a_missing_kubeconfig_is_one_line(tmp_path):
    result = CliRunner().invoke(cli, ["explain", "x", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert result.output.startswith("Error: cannot read the kubeconfig")
