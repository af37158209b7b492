import copy

import pytest
from tests.cluster.world import World

from pykueue.api import conditions, objects
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


class Gym:
    def __init__(self, kind="PyTorchJob", replicas=None, policy="Never", **run_policy):
        self.framework = BY_KIND[kind]
        self.world = World()
        counts = replicas or {"Master": 1, "Worker": 2}
        spec = {
            self.framework.replicas_field: {role: replica(count, policy) for role, count in counts.items()},
            "runPolicy": run_policy,
        }
        self.world.add({"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "mnist"}, "spec": spec})
        self.sync()

    @property
    def job(self):
        return self.world.get(self.framework.kind, "mnist")

    def sync(self):
        reconcile = sync.reconciler(self.framework)
        self.done = self.world.run(reconcile(copy.deepcopy(self.job), self.world.of("Pod"), self.world.now))
        return self

    def names(self):
        return sorted(objects.name(pod) for pod in self.world.of("Pod"))

    def start(self):
        for pod in self.world.of("Pod"):
            self.world.start_pod(pod)
        return self.sync()

    def end(self, name, exit_code=0):
        self.world.end_pod(self.world.get("Pod", name), exit_code)
        return self.sync()

    def state(self):
        """What `kubectl get` shows: the last condition."""
        return self.job["status"]["conditions"][-1]["type"]

    def told(self, name):
        env = self.world.get("Pod", name)["spec"]["containers"][0]["env"]
        return {variable["name"]: variable["value"] for variable in env}


def test_pods_are_named_by_role_and_index():
    assert Gym().names() == ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]


def test_pytorch_members_know_each_other():
    told = Gym().told("mnist-worker-1")
    assert (told["MASTER_ADDR"], told["MASTER_PORT"]) == ("mnist-master-0", "23456")
    assert (told["WORLD_SIZE"], told["RANK"], told["PET_NNODES"], told["PET_NODE_RANK"]) == ("3", "2", "3", "2")


def test_created_then_running_then_succeeded():
    gym = Gym()
    assert gym.state() == "Created"
    assert gym.start().state() == "Running"
    assert gym.job["status"]["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 2}}
    assert gym.end("mnist-master-0").state() == "Succeeded"
    condition = gym.job["status"]["conditions"][-1]
    assert (condition["reason"], condition["message"]) == (
        "PyTorchJobSucceeded",
        "PyTorchJob mnist is successfully completed.",
    )


def test_without_a_master_all_workers_must_succeed():
    gym = Gym(replicas={"Worker": 2}).start()
    assert gym.end("mnist-worker-0").state() == "Running"
    assert gym.end("mnist-worker-1").state() == "Succeeded"


def test_a_failed_pod_fails_a_job_that_never_restarts():
    gym = Gym().start().end("mnist-worker-0", 1)
    assert gym.state() == "Failed"
    assert (
        gym.job["status"]["conditions"][-1]["message"]
        == "PyTorchJob mnist is failed because 1 Worker replica(s) failed."
    )


def test_a_failed_pod_is_replaced_if_it_may_restart():
    gym = Gym(policy="OnFailure").start().end("mnist-worker-0", 1)
    assert gym.state() == "Restarting"
    gym.sync()
    assert pods.phase(gym.world.get("Pod", "mnist-worker-0")) == "Pending"


@pytest.mark.parametrize(("exit_code", "state"), [(1, "Failed"), (137, "Restarting")])
def test_restart_by_exit_code(exit_code, state):
    assert Gym(policy="ExitCode").start().end("mnist-worker-0", exit_code).state() == state


def test_suspending_removes_the_pods_and_resuming_brings_them_back():
    gym = Gym().start()
    gym.job["spec"]["runPolicy"]["suspend"] = True
    gym.sync()
    assert gym.state() == "Suspended"
    assert not any(pods.is_active(pod) for pod in gym.world.of("Pod"))
    for pod in gym.world.of("Pod"):
        gym.world.end_pod(pod)
    assert gym.world.of("Pod") == []
    gym.job["spec"]["runPolicy"]["suspend"] = False
    assert len(gym.sync().names()) == 3
    assert not conditions.is_true(gym.job, "Suspended")


@pytest.mark.parametrize(("policy", "left"), [("None", 3), ("Running", 1), ("All", 0)])
def test_what_is_left_when_the_job_is_done(policy, left):
    gym = Gym(cleanPodPolicy=policy).start().end("mnist-master-0")
    assert len([pod for pod in gym.world.of("Pod") if not objects.is_deleted(pod)]) == left


def test_the_deadline_fails_the_job():
    gym = Gym(activeDeadlineSeconds=60).start()
    assert gym.done.look_again_after == 60
    gym.world.pass_time(60)
    assert gym.sync().state() == "Failed"


def test_the_job_goes_after_its_time_to_live():
    gym = Gym(ttlSecondsAfterFinished=5).start().end("mnist-master-0")
    assert gym.done.look_again_after == 5
    gym.world.pass_time(5)
    gym.sync()
    assert gym.world.of("PyTorchJob") == []


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
def test_each_framework_tells_its_own(kind, replicas, pod, variable, value):
    assert value in Gym(kind, replicas).told(pod)[variable]


def test_an_mpi_job_ends_with_its_launcher():
    assert Gym("MPIJob", {"Launcher": 1, "Worker": 2}).start().end("mnist-launcher-0").state() == "Succeeded"


def test_mpi_workers_without_a_command_wait_for_the_launcher():
    worker = Gym("MPIJob", {"Launcher": 1, "Worker": 1}).world.get("Pod", "mnist-worker-0")
    assert worker["spec"]["containers"][0]["command"] == ["sleep", "infinity"]
    assert worker["metadata"]["labels"]["training.kubeflow.org/operator-name"] == "mpi-operator"
