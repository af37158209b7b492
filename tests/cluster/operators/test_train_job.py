import copy

import pytest
from tests.cluster.fake_api import FakeApi

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


class TrainJobFixture:
    def __init__(self, runtime=RUNTIME, **spec):
        self.api = FakeApi()
        self.runtime = runtime
        self.api.add(
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
        return self.api.get("TrainJob", "tune")

    @property
    def job_set(self):
        return self.api.get("JobSet", "tune")

    def sync(self):
        sync = train_job.reconciler(lambda _reference: self.runtime)
        self.api.run(sync(copy.deepcopy(self.job), self.api.of("JobSet"), self.api.now))
        return self

    def set_job_set_status(self, **status):
        self.job_set["status"] = status
        return self.sync()


def test_a_job_becomes_the_job_set_of_its_runtime():
    [replicated] = TrainJobFixture().job_set["spec"]["replicatedJobs"]
    assert (replicated["name"], replicated["template"]["spec"]["parallelism"]) == ("node", 3)


def test_without_its_runtime_nothing_is_made():
    assert TrainJobFixture(runtime=None).api.of("JobSet") == []


def test_nodes_have_the_address_of_the_first_node():
    [replicated] = TrainJobFixture().job_set["spec"]["replicatedJobs"]
    env = {
        variable["name"]: variable.get("value")
        for variable in replicated["template"]["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert (env["PET_NNODES"], env["PET_MASTER_ADDR"]) == ("3", "tune-node-0-0.tune")


def test_a_resumed_job_runs_with_what_its_admission_gave():
    fixture = TrainJobFixture(suspend=True)
    assert fixture.job_set["spec"]["suspend"]
    assert conditions.is_true(fixture.job, "Suspended")
    change = {"name": "node", "template": {"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}}}
    patch = {"template": {"spec": {"replicatedJobs": [change]}}}
    fixture.job["spec"] |= {
        "suspend": False,
        "runtimePatches": [{"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": patch}],
    }
    before = copy.deepcopy(fixture.job["spec"])
    fixture.sync()
    assert fixture.job["spec"] == before
    [replicated] = fixture.job_set["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "a"}
    assert not fixture.job_set["spec"]["suspend"]
    assert not conditions.is_true(fixture.job, "Suspended")


def test_a_waiting_job_that_asks_for_less_gets_less():
    fixture = TrainJobFixture(suspend=True)
    fixture.job["spec"]["trainer"]["numNodes"] = 1
    [replicated] = fixture.sync().sync().job_set["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["parallelism"] == 1


@pytest.mark.parametrize(("theirs", "ours"), [("Completed", "Complete"), ("Failed", "Failed")])
def test_it_ends_as_its_job_set_does(theirs, ours):
    fixture = TrainJobFixture().set_job_set_status(
        conditions=[{"type": theirs, "status": "True", "reason": "R", "message": "m"}]
    )
    assert conditions.is_true(fixture.job, ours)


def test_its_parts_are_those_of_its_job_set():
    part = {"name": "node", "active": 1, "ready": 1}
    assert TrainJobFixture().set_job_set_status(replicatedJobsStatus=[part]).job["status"]["jobsStatus"] == [part]
