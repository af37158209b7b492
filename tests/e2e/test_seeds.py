"""The scenarios of the documents, played with kubectl up to the start of pods."""

import itertools
import json
import re
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.conftest import KUBECTL, Kubectl, running_api

SEEDS = Path(__file__).parents[1] / "seeds"
GPU_JOB = {"cpu": "2", "memory": "8G", "nvidia.com/gpu": "1"}
DEADLINE_SECONDS = 30

_names = itertools.count(1)


@contextmanager
def fresh_cluster(external_cluster, directory):
    if KUBECTL is None:
        pytest.skip("kubectl is not on PATH")
    with running_api(external_cluster, directory) as kubeconfig:
        yield Kubectl(kubeconfig=kubeconfig, namespace="", home=directory)


@pytest.fixture
def kubectl(external_cluster, tmp_path):
    with fresh_cluster(external_cluster, tmp_path) as kubectl:
        yield kubectl


def until(question, state=lambda: ""):
    """`state` tells what to print if the question is never answered with yes."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if answer := question():
            return answer
        time.sleep(0.2)
    raise AssertionError(f"the condition did not become true {state()}")


def seed(kubectl, pattern):
    for path in sorted(SEEDS.glob(pattern)):
        kubectl("apply", "-f", str(path))


def is_running(kubectl, kind, name, namespace):
    return not kubectl.json("get", kind, name, "-n", namespace)["spec"].get("suspend")


def workload_of(kubectl, name, namespace):
    for workload in kubectl.json("get", "workloads", "-n", namespace)["items"]:
        if workload["metadata"]["ownerReferences"][0]["name"] == name:
            return workload
    return None


def conditions_of(workload):
    return {
        condition["type"]: (condition["status"], condition["reason"], _anonymous(condition["message"]))
        for condition in workload["status"]["conditions"]
    }


def _anonymous(text):
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<uid>", text)
    return re.sub(r"(job-team-[ab]-job)-[0-9a-f]{5}", r"\1-#", text)


def events_in(kubectl, namespace):
    events = kubectl.json("get", "events.events.k8s.io", "-n", namespace)["items"]
    return {
        (event["reason"], re.sub(r"was \d+s", "was <n>s", _anonymous(event["note"])))
        for event in events
        if "kueue" in event["reportingController"]
    }


PREEMPTED = (
    "Preempted to accommodate a workload (UID: <uid>, JobUID: <uid>) due to reclamation within the cohort while "
    "borrowing; preemptor path: /team-ab/team-a-cq; preemptee path: /team-ab/team-b-cq"
)
PRIORITIES = (
    "; preemptor effective priority: 1000 (base: 1000, boost: 0)"
    "; preemptee effective priority: 100 (base: 100, boost: 0)"
)
SHORT = (
    "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default-flavor, 2 more needed"
)


RESERVED = (
    "Quota reserved in ClusterQueue team-a-cq, wait time since queued was <n>s; "
    "Flavors considered: main: default-flavor(Fit;borrow=1)"
)


@pytest.fixture(scope="module")
def two_teams(external_cluster, tmp_path_factory):
    """Team B borrows the shared CPUs, then team A's job takes them back."""
    with fresh_cluster(external_cluster, tmp_path_factory.mktemp("teams")) as kubectl:
        yield preempted(kubectl)


def preempted(kubectl):
    seed(kubectl, "003-0*.yaml")
    seed(kubectl, "003-10*.yaml")
    seed(kubectl, "003-11*.yaml")
    until(lambda: is_running(kubectl, "job", "team-b-job", "team-b"))
    seed(kubectl, "003-12*.yaml")
    until(lambda: is_running(kubectl, "job", "team-a-job", "team-a"))
    until(lambda: "2 more needed" in str(workload_of(kubectl, "team-b-job", "team-b")["status"]["conditions"]))
    return kubectl


def test_a_production_job_takes_back_what_was_borrowed(two_teams):
    victim = conditions_of(workload_of(two_teams, "team-b-job", "team-b"))
    assert victim == {
        "QuotaReserved": ("False", "Pending", SHORT),
        "Evicted": ("True", "Preempted", PREEMPTED),
        "Preempted": ("True", "InCohortReclaimWhileBorrowing", PREEMPTED),
        "Requeued": ("True", "Preempted", PREEMPTED),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
        "PodsReady": ("False", "WaitForStart", "Not all pods are ready or succeeded"),
    }
    assert not is_running(two_teams, "job", "team-b-job", "team-b")


def test_both_sides_are_told_why(two_teams):
    def missing():
        told_b, told_a = events_in(two_teams, "team-b"), events_in(two_teams, "team-a")
        expected_b = {
            ("EvictedDueToPreempted", PREEMPTED),
            ("Preempted", PREEMPTED + PRIORITIES),
            ("Stopped", PREEMPTED),
            ("Started", "Admitted by clusterQueue team-b-cq"),
        }
        victim = "Preempted workload team-b/job-team-b-job-# (UID: <uid>) in ClusterQueue team-b-cq"
        expected_a = {
            ("PreemptedWorkload", victim + PRIORITIES),
            ("Pending", f"{SHORT}. Pending the preemption of 1 workload(s)"),
            ("QuotaReserved", RESERVED),
            ("Admitted", "Admitted by ClusterQueue team-a-cq, wait time since reservation was <n>s"),
        }
        # On a slow machine, the event of a second try is dropped, as Kueue's recorder drops it.
        pending_b = {"Pending"} - {reason for reason, _ in told_b}
        return expected_b - told_b | expected_a - told_a | pending_b

    until(lambda: not missing(), missing)


def test_kubectl_shows_the_queues(two_teams):
    def shows_all():
        table = two_teams("get", "clusterqueues", "-o", "wide")
        rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()[1:]}
        return rows == {
            "shared-cq": ["team-ab", "BestEffortFIFO", "0", "0"],
            "team-a-cq": ["team-ab", "BestEffortFIFO", "0", "1"],
            "team-b-cq": ["team-ab", "BestEffortFIFO", "1", "0"],
        }

    until(shows_all)


def ray_job(priority):
    container = {"name": "ray-head", "image": "rayproject/ray:2.9.0", "resources": {"requests": GPU_JOB}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": f"{priority}-classifier-{next(_names)}",
            "namespace": "default",
            "labels": {
                "kueue.x-k8s.io/queue-name": "user-queue",
                "kueue.x-k8s.io/priority-class": f"{priority}-priority",
            },
        },
        "spec": {
            "entrypoint": "python train.py",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}}
            },
        },
    }


def create(kubectl, priority):
    job = ray_job(priority)
    kubectl("create", "-f", "-", stdin=json.dumps(job))
    return job["metadata"]["name"]


def test_ray_jobs_queue_by_priority_and_all_run_when_quota_grows(kubectl):
    seed(kubectl, "004-01*.yaml")
    first = create(kubectl, "dev")
    until(lambda: is_running(kubectl, "rayjob", first, "default"))
    waiting = [create(kubectl, "dev"), create(kubectl, "dev")]

    def both_wait():
        status = kubectl.json("get", "clusterqueue", "cluster-queue").get("status", {})
        return (status.get("admittedWorkloads"), status.get("pendingWorkloads")) == (1, 2)

    until(both_wait)
    production = create(kubectl, "prod")
    until(lambda: is_running(kubectl, "rayjob", production, "default"))
    assert not is_running(kubectl, "rayjob", first, "default")
    seed(kubectl, "004-05*.yaml")
    for name in (first, *waiting):
        until(lambda name=name: is_running(kubectl, "rayjob", name, "default"))


def test_a_ray_cluster_waits_for_its_queue(kubectl):
    """A cluster that exists before its queue stays suspended until the queue is created."""
    kubectl("create", "namespace", "team-a")
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray", "namespace": "team-a", "labels": {"kueue.x-k8s.io/queue-name": "local-queue"}},
        "spec": ray_job("dev")["spec"]["rayClusterSpec"],
    }
    kubectl("create", "-f", "-", stdin=json.dumps(cluster))
    until(lambda: workload_of(kubectl, "ray", "team-a"))
    assert not is_running(kubectl, "raycluster", "ray", "team-a")
    seed(kubectl, "004-01*.yaml")
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": "local-queue", "namespace": "team-a"},
        "spec": {"clusterQueue": "cluster-queue"},
    }
    kubectl("create", "-f", "-", stdin=json.dumps(queue))
    until(lambda: is_running(kubectl, "raycluster", "ray", "team-a"))
