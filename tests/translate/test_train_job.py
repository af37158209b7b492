import copy

import pytest

from pykueue.api import resources
from pykueue.translate.jobs import framework, train_job, training_runtime
from pykueue.translate.jobs.framework import JobOptions, MissingDependencyError
from pykueue.translate.pod_set_info import PodSetInfo

TRAIN_JOB = train_job.FRAMEWORK
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
MANAGER = "kueue.x-k8s.io/manager"


def replicated(name, step="", *, container="node", cpu="1", **spec):
    return {
        "name": name,
        "template": {
            "metadata": {"labels": {STEP: step} if step else {}},
            "spec": {
                "template": {
                    "spec": {"containers": [{"name": container, "resources": {"requests": {"cpu": cpu}}}]},
                },
                **spec,
            },
        },
    }


def runtime(*jobs, **policy):
    return {
        "kind": "ClusterTrainingRuntime",
        "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs)}}},
    }


TORCH = runtime(replicated("node", "trainer"), numNodes=2, torch={})
MPI = runtime(replicated("launcher", "trainer"), replicated("node"), numNodes=1, mpi={"runLauncherAsNode": True})
INITIALIZED = runtime(
    replicated("dataset-initializer", "dataset-initializer", container="dataset-initializer"),
    replicated("node", "trainer"),
    numNodes=1,
)


def job(*, patches=(), status=None, **spec):
    own = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}
    return {
        "metadata": {"name": "tune", "namespace": "ns"},
        "spec": {"suspend": True, "runtimeRef": {"name": "torch"}, "runtimePatches": [*patches, own], **spec},
        "status": status or {},
    }


def framework_of(of_runtime):
    return TRAIN_JOB.dependency.framework_for(of_runtime)


def pod_sets(of, of_runtime):
    return framework.pod_sets(framework_of(of_runtime), of, JobOptions())


def counts(of, of_runtime):
    return {pod_set["name"]: pod_set["count"] for pod_set in pod_sets(of, of_runtime)}


def container(of, of_runtime, index=0):
    return pod_sets(of, of_runtime)[index]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("reference", "resource", "namespace"),
    [
        ({"name": "r"}, resources.CLUSTER_TRAINING_RUNTIME, ""),
        ({"name": "r", "kind": "TrainingRuntime"}, resources.TRAINING_RUNTIME, "ns"),
    ],
)
def test_a_runtime_is_for_all_namespaces_by_default(reference, resource, namespace):
    dependency = TRAIN_JOB.dependency.reference(job(runtimeRef=reference))
    assert (dependency.resource, dependency.name, dependency.namespace) == (resource, "r", namespace)


def test_without_its_runtime_its_pods_are_unknown():
    with pytest.raises(MissingDependencyError, match="runtime 'torch' not found"):
        pod_sets(job(), None)


def test_the_runtime_says_how_many_nodes():
    assert counts(job(), TORCH) == {"node": 2}


def test_the_job_may_ask_for_another_number_of_nodes():
    assert counts(job(trainer={"numNodes": 5}), TORCH) == {"node": 5}


def test_a_launcher_that_works_is_one_of_the_nodes():
    assert counts(job(trainer={"numNodes": 4}), MPI) == {"launcher": 1, "node": 3}


def test_the_parallelism_of_other_jobs_counts():
    assert counts(job(), runtime(replicated("evaluator", parallelism=3, completions=9))) == {"evaluator": 3}


def test_resources_per_node_replace_those_of_the_runtime():
    train_job_object = job(trainer={"resourcesPerNode": {"requests": {"cpu": "8"}}})
    assert container(train_job_object, TORCH)["resources"] == {"requests": {"cpu": "8"}}


def test_workers_of_mpi_get_the_resources_too():
    train_job_object = job(trainer={"resourcesPerNode": {"limits": {"nvidia.com/gpu": "1"}}})
    assert container(train_job_object, MPI, 1)["resources"] == {"limits": {"nvidia.com/gpu": "1"}}


def test_the_job_says_what_the_trainer_runs():
    train_job_object = job(trainer={"image": "mine", "command": ["train"], "env": [{"name": "A", "value": "b"}]})
    trainer_container = container(train_job_object, TORCH)
    assert (trainer_container["image"], trainer_container["command"], trainer_container["env"]) == (
        "mine",
        ["train"],
        [{"name": "A", "value": "b"}],
    )


def test_an_initializer_is_told_where_the_data_is():
    train_job_object = job(initializer={"dataset": {"storageUri": "hf://x", "secretRef": {"name": "token"}}})
    trainer_container = container(train_job_object, INITIALIZED)
    assert trainer_container["env"] == [{"name": "STORAGE_URI", "value": "hf://x"}]
    assert trainer_container["envFrom"] == [{"secretRef": {"name": "token"}}]


def patch(manager, **pod_spec):
    change = {"name": "node", "template": {"spec": {"template": {"spec": pod_spec}}}}
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [change]}}}}


def test_patches_are_merged_by_name():
    sidecar = {"name": "log", "resources": {"requests": {"cpu": "1"}}}
    env = {"name": "node", "env": [{"name": "A", "value": "b"}]}
    [pod_set] = pod_sets(job(patches=[patch("me", containers=[env, sidecar])]), TORCH)
    node, log = pod_set["template"]["spec"]["containers"]
    assert (node["resources"], node["env"]) == ({"requests": {"cpu": "1"}}, env["env"])
    assert log == sidecar


def test_reading_a_job_leaves_its_runtime_as_it_is():
    before = copy.deepcopy(TORCH)
    pod_sets(job(patches=[patch("me", nodeSelector={"a": "b"})], trainer={"numNodes": 3}), TORCH)
    assert before == TORCH


def test_what_is_made_of_a_job_is_no_part_of_it():
    train_job_object = job(
        patches=[patch("me", nodeSelector={"a": "b"})], trainer={"env": [{"name": "A", "value": "b"}]}
    )
    before = copy.deepcopy(train_job_object)
    [replicated_job] = training_runtime.replicated_jobs(train_job_object, TORCH)
    spec = replicated_job["template"]["spec"]["template"]["spec"]
    spec["nodeSelector"]["more"] = spec["containers"][0]["env"][0]["value"] = "c"
    assert train_job_object == before


def test_an_admission_becomes_a_patch_and_goes_again():
    waiting = job(patches=[patch("me", nodeSelector={"mine": "yes"})])
    info = PodSetInfo(name="node", count=2, node_selector={"pool": "a"}, tolerations=({"key": "spot"},))
    running = framework.started(framework_of(TORCH), waiting, [info], JobOptions())
    [_, own] = running["spec"]["runtimePatches"]
    [change] = own["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert change["template"]["spec"]["template"]["spec"] == {
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "spot"}],
    }
    assert not running["spec"]["suspend"]
    stopped = framework.restored(framework_of(TORCH), framework.suspended(TRAIN_JOB, running), [info], JobOptions())
    assert stopped == waiting


def test_what_an_admission_gave_is_not_asked_for():
    info = PodSetInfo(name="node", count=2, node_selector={"pool": "a"})
    running = framework.started(framework_of(TORCH), job(), [info], JobOptions())
    assert pod_sets(running, TORCH) == pod_sets(job(), TORCH)


@pytest.mark.parametrize(("condition", "is_success"), [("Complete", True), ("Failed", False)])
def test_it_ends_with_a_condition(condition, is_success):
    status = {"conditions": [{"type": condition, "status": "True", "message": "m"}]}
    finished = TRAIN_JOB.finished(job(status=status))
    assert (finished.is_success, finished.message) == (is_success, "m")


def test_pods_are_ready_when_every_replicated_job_is():
    status = {"jobsStatus": [{"name": "dataset-initializer", "succeeded": 1}, {"name": "node", "ready": 0}]}
    assert not framework_of(INITIALIZED).pods_ready(job(status=status))
    status["jobsStatus"][1]["ready"] = 1
    assert framework_of(INITIALIZED).pods_ready(job(status=status))


def test_a_replicated_job_that_is_done_gives_its_pods_back():
    status = {"jobsStatus": [{"name": "dataset-initializer", "succeeded": 1}, {"name": "node", "active": 1}]}
    assert framework_of(INITIALIZED).reclaimable(job(status=status)) == [{"name": "dataset-initializer", "count": 1}]
    assert TRAIN_JOB.is_active(job(status=status))
