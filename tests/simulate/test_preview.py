"""`pykueue apply --preview`: what a change would do, without writing it."""

import copy

import pytest
from tests.simulate.worlds import cluster_queue, flavor, local_queue, workload

from pykueue.api import times
from pykueue.simulate import preview
from pykueue.simulate.sources import cluster
from pykueue.simulate.sources.manifests import Manifests

NOW_NS = 1_800_000_000 * 10**9
ADMITTED_AT = "2027-01-15T07:59:00Z"


def live_workload(name, gpus, *, is_admitted=False, limit=None):
    obj = workload("team-a", gpus)
    obj["metadata"] |= {"name": name, "uid": name, "creationTimestamp": "2027-01-15T07:00:00Z"}
    if limit is not None:
        obj["spec"]["maximumExecutionTimeSeconds"] = limit
    if is_admitted:
        condition = {"status": "True", "reason": "r", "message": "", "lastTransitionTime": ADMITTED_AT}
        obj["status"] = {
            "conditions": [{"type": "QuotaReserved", **condition}, {"type": "Admitted", **condition}],
            "admission": {
                "clusterQueue": "team-a",
                "podSetAssignments": [
                    {
                        "name": "main",
                        "count": 1,
                        "flavors": {"nvidia.com/gpu": "gpu"},
                        "resourceUsage": {"nvidia.com/gpu": str(gpus)},
                    }
                ],
            },
        }
    return obj


def finished_workload(name, gpus, *, run_seconds):
    obj = live_workload(name, gpus, is_admitted=True)
    end = times.from_ns(times.to_ns(ADMITTED_AT) + run_seconds * 10**9)
    condition = {"type": "Finished", "status": "True", "reason": "r", "message": "", "lastTransitionTime": end}
    obj["status"]["conditions"].append(condition)
    return obj


def looked_at(items, *changes):
    return preview.preview(items, Manifests(objects=list(changes)), {}, now_ns=NOW_NS)


def cluster_items(*workloads):
    return [flavor(), cluster_queue("team-a", 4), local_queue("team-a"), *workloads]


def test_more_quota_admits_a_waiting_workload():
    items = cluster_items(live_workload("running", 4, is_admitted=True), live_workload("waiting", 2))
    result = looked_at(items, cluster_queue("team-a", 6))
    assert result.admitted == [("team-a/waiting", 0.0)]
    assert list(result.lines())[1] == "  admit team-a/waiting after 0s with gpu"
    assert result.as_json()["admitted"][0]["flavors"] == ["gpu"]
    assert not result.evicted


def test_a_drained_queue_evicts_what_runs():
    items = cluster_items(live_workload("running", 4, is_admitted=True))
    result = looked_at(items, cluster_queue("team-a", 4, stopPolicy="HoldAndDrain"))
    assert result.evicted == [("team-a/running", 0.0, "ClusterQueueStopped")]


def test_less_quota_blocks_a_workload_that_would_have_started():
    items = cluster_items(live_workload("running", 4, is_admitted=True, limit=600), live_workload("waiting", 3))
    result = looked_at(items, cluster_queue("team-a", 2))
    assert [key for key, _ in result.blocked] == ["team-a/waiting"]
    assert "insufficient" in result.blocked[0][1]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (cluster_queue("team-a", 0), "maximum capacity"),
        (cluster_queue("team-a", 4, stopPolicy="Hold"), "ClusterQueue team-a is not active"),
        ({**local_queue("team-a"), "spec": {"clusterQueue": "team-a", "stopPolicy": "Hold"}}, "main is stopped"),
        (cluster_queue("team-a", 4, namespaceSelector={"matchLabels": {"a": "b"}}), "namespace"),
    ],
)
def test_a_change_blocks_a_workload_that_waits_for_a_job_without_a_known_end(change, why):
    items = cluster_items(live_workload("running", 4, is_admitted=True), live_workload("waiting", 3))
    result = looked_at(items, change)
    assert [key for key, _ in result.blocked] == ["team-a/waiting"]
    assert why in result.blocked[0][1]
    assert list(result.lines())[-1].startswith("Nobody knows how long team-a/running will run")
    assert not looked_at(items, cluster_queue("team-a", 3)).blocked


def test_more_quota_lets_a_workload_start_sooner():
    items = cluster_items(live_workload("running", 4, is_admitted=True, limit=660), live_workload("waiting", 2))
    result = looked_at(items, cluster_queue("team-a", 6))
    assert result.moved == [("team-a/waiting", 0.0, 600.0)]
    assert list(result.lines())[1:] == ["  start team-a/waiting 10m sooner, after 0s"]


def test_less_quota_lets_a_workload_start_later():
    waiting = (live_workload(name, 2, limit=300) for name in ("first", "second"))
    items = cluster_items(live_workload("running", 4, is_admitted=True, limit=660), *waiting)
    result = looked_at(items, cluster_queue("team-a", 2))
    assert list(result.lines())[1:] == ["  start team-a/second 5m later, after 15m"]


def test_run_times_are_learned_from_finished_workloads():
    """Jobs like the running one took ten minutes, so the waiting one starts within the hour."""
    done = [finished_workload(f"train-{number}", 4, run_seconds=600) for number in range(5)]
    items = cluster_items(*done, live_workload("train-9", 4, is_admitted=True), live_workload("waiting", 2))
    result = looked_at(items, cluster_queue("team-a", 6))
    assert result.moved == [("team-a/waiting", 0.0, 540.0)]


def test_a_stopped_queue_is_named_as_the_reason():
    items = cluster_items(live_workload("running", 4, is_admitted=True, limit=600), live_workload("waiting", 3))
    result = looked_at(items, cluster_queue("team-a", 4, stopPolicy="Hold"))
    assert result.blocked == [("team-a/waiting", "ClusterQueue team-a is not active")]


def test_a_change_without_effect_says_so():
    items = cluster_items(live_workload("running", 4, is_admitted=True))
    assert list(looked_at(items, cluster_queue("team-a", 5)).lines()) == ["Nothing would change in the next 1h."]


def test_the_history_of_a_cluster_is_its_workloads_without_their_status():
    finished = finished_workload("done", 2, run_seconds=600)
    later = live_workload("later", 2)
    later["metadata"]["creationTimestamp"] = "2027-01-15T07:30:00Z"
    old = copy.deepcopy(finished)
    old["metadata"]["creationTimestamp"] = "2026-12-01T00:00:00Z"
    history = cluster.history(cluster_items(finished, later, old), days=1, now_ns=NOW_NS, configuration={})
    assert [(row.submit_ns, row.run_ns) for row in history.workloads] == [(0, 600 * 10**9), (1800 * 10**9, None)]
    assert "status" not in history.workloads[0].workload
    assert all(obj["kind"] != "Workload" for obj in history.objects)
