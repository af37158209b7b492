import copy

import pytest
from tests.cluster.world import World

from pykueue.api import conditions
from pykueue.cluster.operators import train_job

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
RUNTIME = {
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {STEP: "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node"}]}}},
                        },
                    }
                ]
            }
        },
    }
}


class Course:
    def __init__(self, runtime=RUNTIME, **spec):
        self.world = World()
        self.runtime = runtime
        self.world.add(
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "metadata": {"name": "tune", "namespace": "ns"},
                "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 3}} | spec,
            }
        )
        self.sync()

    @property
    def job(self):
        return self.world.get("TrainJob", "tune")

    @property
    def job_set(self):
        return self.world.get("JobSet", "tune")

    def sync(self):
        sync = train_job.reconciler(lambda _reference: self.runtime)
        self.world.run(sync(copy.deepcopy(self.job), self.world.of("JobSet"), self.world.now))
        return self

    def tell(self, **status):
        self.job_set["status"] = status
        return self.sync()


def test_a_job_becomes_the_job_set_of_its_runtime():
    [replicated] = Course().job_set["spec"]["replicatedJobs"]
    assert (replicated["name"], replicated["template"]["spec"]["parallelism"]) == ("node", 3)


def test_without_its_runtime_nothing_is_made():
    assert Course(runtime=None).world.of("JobSet") == []


def test_nodes_know_where_to_meet():
    [replicated] = Course().job_set["spec"]["replicatedJobs"]
    env = {
        each["name"]: each.get("value")
        for each in replicated["template"]["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert (env["PET_NNODES"], env["PET_MASTER_ADDR"]) == ("3", "tune-node-0-0.tune")


def test_a_resumed_job_runs_with_what_its_admission_gave():
    course = Course(suspend=True)
    assert course.job_set["spec"]["suspend"]
    assert conditions.is_true(course.job, "Suspended")
    change = {"name": "node", "template": {"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}}}
    patch = {"template": {"spec": {"replicatedJobs": [change]}}}
    course.job["spec"] |= {
        "suspend": False,
        "runtimePatches": [{"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": patch}],
    }
    before = copy.deepcopy(course.job["spec"])
    course.sync()
    assert course.job["spec"] == before
    [replicated] = course.job_set["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "a"}
    assert not course.job_set["spec"]["suspend"]


def test_a_waiting_job_that_asks_for_less_gets_less():
    course = Course(suspend=True)
    course.job["spec"]["trainer"]["numNodes"] = 1
    [replicated] = course.sync().sync().job_set["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["parallelism"] == 1


@pytest.mark.parametrize(("theirs", "ours"), [("Completed", "Complete"), ("Failed", "Failed")])
def test_it_ends_as_its_job_set_does(theirs, ours):
    course = Course().tell(conditions=[{"type": theirs, "status": "True", "reason": "R", "message": "m"}])
    assert conditions.is_true(course.job, ours)


def test_its_parts_are_those_of_its_job_set():
    part = {"name": "node", "active": 1, "ready": 1}
    assert Course().tell(replicatedJobsStatus=[part]).job["status"]["jobsStatus"] == [part]
