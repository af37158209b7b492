import copy

import pytest
from tests.cluster.fake_api import FakeApi

from pykueue.api import conditions, objects
from pykueue.api.times import SECOND_NS
from pykueue.cluster import pods
from pykueue.cluster.operators.kubeflow import sync
from pykueue.cluster.operators.kubeflow.frameworks import FRAMEWORKS

BY_KIND = {framework.kind: framework for framework in FRAMEWORKS}


def replica(count, policy="Never"):
    return {
        "replicas": count,
        "restartPolicy": policy,
        "template": {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}},
    }


class TrainingJobFixture:
    def __init__(self, kind="PyTorchJob", replicas=None, policy="Never", **run_policy):
        self.framework = BY_KIND[kind]
        self.api = FakeApi()
        counts = replicas or {"Master": 1, "Worker": 2}
        spec = {
            self.framework.replicas_field: {role: replica(count, policy) for role, count in counts.items()},
            "runPolicy": run_policy,
        }
        self.api.add({"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "mnist"}, "spec": spec})
        self.sync()

    @property
    def job(self):
        return self.api.get(self.framework.kind, "mnist")

    def sync(self):
        reconcile = sync.reconciler(self.framework)
        self.done = self.api.run(reconcile(copy.deepcopy(self.job), self.api.of("Pod"), self.api.now))
        return self

    def names(self):
        return sorted(objects.name(pod) for pod in self.api.of("Pod"))

    def start(self):
        for pod in self.api.of("Pod"):
            self.api.start_pod(pod)
        return self.sync()

    def end(self, name, exit_code=0):
        self.api.end_pod(self.api.get("Pod", name), exit_code)
        return self.sync()

    def state(self):
        """What `kubectl get` shows: the last condition."""
        return self.job["status"]["conditions"][-1]["type"]

    def variables(self, name):
        env = self.api.get("Pod", name)["spec"]["containers"][0]["env"]
        return {variable["name"]: variable["value"] for variable in env}


def test_pods_are_named_by_role_and_index():
    assert TrainingJobFixture().names() == ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]


def test_pytorch_members_have_the_address_of_the_master():
    variables = TrainingJobFixture().variables("mnist-worker-1")
    assert (variables["MASTER_ADDR"], variables["MASTER_PORT"]) == ("mnist-master-0", "23456")
    assert (variables["WORLD_SIZE"], variables["RANK"], variables["PET_NNODES"], variables["PET_NODE_RANK"]) == (
        "3",
        "2",
        "3",
        "2",
    )


def test_created_then_running_then_succeeded():
    fixture = TrainingJobFixture()
    assert fixture.state() == "Created"
    assert fixture.start().state() == "Running"
    assert fixture.job["status"]["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 2}}
    assert fixture.end("mnist-master-0").state() == "Succeeded"
    condition = fixture.job["status"]["conditions"][-1]
    assert (condition["reason"], condition["message"]) == (
        "PyTorchJobSucceeded",
        "PyTorchJob mnist is successfully completed.",
    )


def test_without_a_master_all_workers_must_succeed():
    fixture = TrainingJobFixture(replicas={"Worker": 2}).start()
    assert fixture.end("mnist-worker-0").state() == "Running"
    assert fixture.end("mnist-worker-1").state() == "Succeeded"


def test_a_failed_pod_fails_a_job_that_never_restarts():
    fixture = TrainingJobFixture().start().end("mnist-worker-0", 1)
    assert fixture.state() == "Failed"
    assert (
        fixture.job["status"]["conditions"][-1]["message"]
        == "PyTorchJob mnist is failed because 1 Worker replica(s) failed."
    )


def test_a_failed_pod_is_replaced_if_it_may_restart():
    fixture = TrainingJobFixture(policy="OnFailure").start().end("mnist-worker-0", 1)
    assert fixture.state() == "Restarting"
    fixture.sync()
    assert pods.phase(fixture.api.get("Pod", "mnist-worker-0")) == "Pending"


@pytest.mark.parametrize(("exit_code", "state"), [(1, "Failed"), (137, "Restarting")])
def test_restart_by_exit_code(exit_code, state):
    assert TrainingJobFixture(policy="ExitCode").start().end("mnist-worker-0", exit_code).state() == state


def test_suspending_removes_the_pods_and_resuming_brings_them_back():
    fixture = TrainingJobFixture().start()
    fixture.job["spec"]["runPolicy"]["suspend"] = True
    fixture.sync()
    assert fixture.state() == "Suspended"
    assert not any(pods.is_active(pod) for pod in fixture.api.of("Pod"))
    for pod in fixture.api.of("Pod"):
        fixture.api.end_pod(pod)
    assert fixture.api.of("Pod") == []
    fixture.job["spec"]["runPolicy"]["suspend"] = False
    assert len(fixture.sync().names()) == 3
    assert not conditions.is_true(fixture.job, "Suspended")


@pytest.mark.parametrize(("policy", "left"), [("None", 3), ("Running", 1), ("All", 0)])
def test_what_is_left_when_the_job_is_done(policy, left):
    fixture = TrainingJobFixture(cleanPodPolicy=policy).start().end("mnist-master-0")
    assert len([pod for pod in fixture.api.of("Pod") if not objects.is_deleted(pod)]) == left


def test_the_deadline_fails_the_job():
    fixture = TrainingJobFixture(activeDeadlineSeconds=60).start()
    assert fixture.done.requeue_after_ns == 60 * SECOND_NS
    fixture.api.pass_time(60)
    assert fixture.sync().state() == "Failed"


def test_the_job_goes_after_its_time_to_live():
    fixture = TrainingJobFixture(ttlSecondsAfterFinished=5).start().end("mnist-master-0")
    assert fixture.done.requeue_after_ns == 5 * SECOND_NS
    fixture.api.pass_time(5)
    fixture.sync()
    assert fixture.api.of("PyTorchJob") == []


@pytest.mark.parametrize(
    ("kind", "replicas", "pod", "variable", "value"),
    [
        ("TFJob", {"Chief": 1, "Worker": 1}, "mnist-worker-0", "TF_CONFIG", '"task": {"type": "worker", "index": 0}'),
        ("XGBoostJob", {"Master": 1, "Worker": 2}, "mnist-worker-1", "WORKER_ADDRS", "mnist-worker-0,mnist-worker-1"),
        ("PaddleJob", {"Worker": 2}, "mnist-worker-1", "PADDLE_MASTER", "mnist-worker-0:36543"),
        ("JAXJob", {"Worker": 2}, "mnist-worker-1", "PROCESS_ID", "1"),
        ("MPIJob", {"Launcher": 1, "Worker": 2}, "mnist-launcher-0", "K_MPI_JOB_ROLE", "launcher"),
    ],
)
def test_each_framework_sets_its_own_variables(kind, replicas, pod, variable, value):
    assert value in TrainingJobFixture(kind, replicas).variables(pod)[variable]


def test_an_mpi_job_ends_with_its_launcher():
    assert (
        TrainingJobFixture("MPIJob", {"Launcher": 1, "Worker": 2}).start().end("mnist-launcher-0").state()
        == "Succeeded"
    )


def test_mpi_workers_without_a_command_wait_for_the_launcher():
    worker = TrainingJobFixture("MPIJob", {"Launcher": 1, "Worker": 1}).api.get("Pod", "mnist-worker-0")
    assert worker["spec"]["containers"][0]["command"] == ["sleep", "infinity"]
    assert worker["metadata"]["labels"]["training.kubeflow.org/operator-name"] == "mpi-operator"
