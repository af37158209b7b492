"""`pykueue explain` says when a pending job will start, or that nobody knows."""

import json
import re
import time

import pytest

from pykueue.api import resources, times
from pykueue.api.times import SECOND_NS

MINUTE_NS = 60 * SECOND_NS


@pytest.fixture(scope="module")
def queue(cluster):
    cluster.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "gpu"}, "spec": {}})
    quota = {"name": "gpu", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": "team"}, "spec": spec})
    local_queue = {"metadata": {"name": "main", "namespace": "default"}, "spec": {"clusterQueue": "team"}}
    cluster.create(resources.LOCAL_QUEUE, local_queue)
    create(cluster, "train-99", 4, minutes_ago={"QuotaReserved": 1, "Admitted": 1})
    create(cluster, "waiting", 2)
    create(cluster, "huge", 40)


def create(cluster, name, cpu, *, minutes_ago=None):
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "main", "podSets": [{"name": "main", "count": 1, "template": template}]}
    cluster.create(resources.WORKLOAD, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    if minutes_ago is None:
        return
    assignment = {"name": "main", "count": 1, "flavors": {"cpu": "gpu"}, "resourceUsage": {"cpu": str(cpu)}}
    now_ns = time.time_ns()
    status = {
        "admission": {"clusterQueue": "team", "podSetAssignments": [assignment]},
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": kind,
                "message": "",
                "lastTransitionTime": times.from_ns(now_ns - minutes * MINUTE_NS),
            }
            for kind, minutes in minutes_ago.items()
        ],
    }
    patch = {"status": status}
    cluster.do(lambda client: client.patch(resources.WORKLOAD, name, "default", patch, subresource="status"))


@pytest.mark.usefixtures("queue")
def test_without_finished_jobs_the_start_is_unknown(cluster):
    text = cluster.pykueue("explain", "waiting").output
    assert "\nEstimated start: unknown, because nobody knows how long default/train-99 will run" in text
    estimate = json.loads(cluster.pykueue("explain", "waiting", "-o", "json").output)["estimatedStart"]
    assert list(estimate) == ["unknown"]


@pytest.mark.usefixtures("queue")
def test_a_workload_that_can_never_start_has_no_estimate(cluster):
    assert "Estimated start" not in cluster.pykueue("explain", "huge").output


@pytest.mark.usefixtures("queue")
def test_a_start_is_estimated_from_finished_jobs(cluster):
    """The jobs before it ran for 30 to 34 minutes, and it has run for one."""
    for number in range(5):
        admitted = 90 + number
        create(cluster, f"train-{number}", 4, minutes_ago={"QuotaReserved": 95, "Admitted": admitted, "Finished": 60})
    text = cluster.pykueue("explain", "waiting").output
    pattern = r"\nEstimated start: in about 3[01]m\w* \(between 2[89]m\w* and 3[23]m\w* in nine of ten cases\)\n"
    assert re.search(pattern, text), text
    estimate = json.loads(cluster.pykueue("explain", "waiting", "-o", "json").output)["estimatedStart"]
    assert list(estimate) == ["p05", "p25", "p50", "p75", "p95"]
    assert list(estimate.values()) == sorted(estimate.values())
