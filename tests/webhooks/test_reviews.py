import pytest
from tests.webhooks.webhook_cluster import (
    CONFIGURATION,
    QUEUE_NAME,
    EmptyLookup,
    ObjectLookup,
    job,
    patched,
    review_request,
)

from pykueue.webhooks.reviews import Reviewer

TEAM = {"kind": "Namespace", "metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "team"}}}
DEFAULT_QUEUE = {"kind": "LocalQueue", "metadata": {"name": "default", "namespace": "team"}}
PARENT = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "metadata": {"name": "parent", "uid": "p", "labels": {QUEUE_NAME: "q"}},
}
OWNED = [{"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "parent", "uid": "p", "controller": True}]


def reviewer(*others):
    return Reviewer(lookup=ObjectLookup(*others) if others else EmptyLookup(), settings=CONFIGURATION.settings())


def mutated(obj, *others):
    return patched(obj, reviewer(*others).mutate(review_request(obj)))


@pytest.mark.parametrize(
    ("obj", "others", "queue", "is_suspended"),
    [
        (job(queue="q"), (TEAM,), "q", True),
        (job(), (TEAM,), "", False),
        (job(), (TEAM, DEFAULT_QUEUE), "default", True),
        (job(), (DEFAULT_QUEUE,), "", False),
        (job(queue="q", ownerReferences=OWNED), (TEAM, PARENT), "q", False),
        (job(queue="q", ownerReferences=OWNED), (TEAM,), "q", True),
    ],
    ids=["queued", "unqueued", "default queue", "unmanaged namespace", "below a queued job", "below nobody"],
)
def test_a_job_is_created_with_its_queue_and_suspended(obj, others, queue, is_suspended):
    admitted = mutated(obj, *others)
    assert admitted["metadata"]["labels"].get(QUEUE_NAME, "") == queue
    assert admitted["spec"].get("suspend", False) is is_suspended


def test_what_needs_no_change_gets_no_patch():
    response = reviewer(TEAM).mutate(review_request(job()))
    assert response == {"uid": "u", "allowed": True}


def test_a_pod_with_a_queue_is_gated():
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {"containers": []},
    }
    pod["metadata"]["labels"] = {QUEUE_NAME: "q"}
    assert {"name": "kueue.x-k8s.io/admission"} in mutated(pod, TEAM)["spec"]["schedulingGates"]


def test_the_api_server_puts_the_name_before_our_words():
    response = reviewer().validate(review_request(job(queue="bad_queue")))
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    assert response["status"]["message"].startswith(f'metadata.labels[{QUEUE_NAME}]: Invalid value: "bad_queue": ')


def test_what_cannot_be_read_is_refused_while_mutating():
    quota = {"name": "cpu", "nominalQuota": "ten"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}]
    queue = kueue("ClusterQueue", {"resourceGroups": groups})
    response = reviewer().mutate(review_request(queue))
    assert (response["allowed"], response["status"]["code"]) == (False, 400)


def test_a_running_job_keeps_its_queue():
    response = reviewer().validate(review_request(job(queue="other"), job(queue="q")))
    assert not response["allowed"]


def kueue(kind, spec, version="v1beta2"):
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("ClusterQueue", {"cohort": "c"}, {"cohortName": "c"}),
        ("ClusterQueue", {"admissionChecks": ["a"]}, {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}),
        ("ResourceFlavor", {"nodeSelector": {"a": "b"}}, {"nodeLabels": {"a": "b"}}),
        ("ClusterQueue", {"flavorFungibility": {"whenCanBorrow": "Borrow"}}, {"flavorFungibility": {"whenCanBorrow": "MayStopSearch"}}),
    ],
    ids=["cohort", "checks", "selector", "synonym"],
)  # fmt: skip
def test_older_spellings_are_read(kind, old, new, version):
    spec = mutated(kueue(kind, old, version))["spec"]
    assert {name: spec[name] for name in new} == new


@pytest.mark.parametrize(
    ("before", "written", "after"),
    [
        ({"cohort": "a", "cohortName": "a"}, {"cohort": "b", "cohortName": "a"}, {"cohort": "b", "cohortName": "b"}),
        ({"cohort": "a", "cohortName": "a"}, {"cohort": "a", "cohortName": "b"}, {"cohortName": "b"}),
        ({"cohort": "a", "cohortName": "a"}, {"cohortName": "a"}, {}),
    ],
    ids=["old changed", "new changed", "old withdrawn"],
)
def test_of_two_spellings_the_one_that_changed_wins(before, written, after):
    old, new = (kueue("ClusterQueue", spec, "v1beta1") for spec in (before, written))
    response = reviewer().mutate(review_request(new, old))
    assert patched(new, response)["spec"] == after


def test_a_status_is_checked_too():
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": []}}}
    workload = kueue("Workload", {"podSets": [pod_set]})
    broken = workload | {"status": {"reclaimablePods": [{"name": "unknown", "count": 1}]}}
    assert not reviewer().validate(review_request(broken, workload, "status"))["allowed"]
