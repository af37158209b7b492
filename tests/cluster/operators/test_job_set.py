import copy

from tests.cluster.fake_api import FakeApi

from pykueue.api import conditions, objects
from pykueue.cluster.operators import job_set

JOB = {"spec": {"parallelism": 1, "completions": 1, "template": {"spec": {"containers": []}}}}


class JobSetFixture:
    def __init__(self, **spec):
        self.api = FakeApi()
        replicated = [{"name": "driver", "template": JOB}, {"name": "workers", "replicas": 2, "template": JOB}]
        self.api.add(
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {"name": "band"},
                "spec": {"replicatedJobs": replicated} | spec,
            }
        )
        self.sync()

    @property
    def job_set(self):
        return self.api.get("JobSet", "band")

    def names(self):
        return sorted(objects.name(job) for job in self.api.of("Job"))

    def sync(self):
        self.api.run(job_set.sync(copy.deepcopy(self.job_set), self.api.of("Job"), self.api.now))
        return self

    def end(self, name, type_="Complete"):
        self.api.get("Job", name)["status"] = {"conditions": [{"type": type_, "status": "True"}]}
        return self.sync()


def test_jobs_are_named_by_role_and_index():
    assert JobSetFixture().names() == ["band-driver-0", "band-workers-0", "band-workers-1"]


def test_it_completes_with_its_last_job():
    fixture = JobSetFixture().end("band-driver-0").end("band-workers-0")
    assert not conditions.is_true(fixture.job_set, "Completed")
    assert conditions.is_true(fixture.end("band-workers-1").job_set, "Completed")
    assert fixture.job_set["status"]["terminalState"] == "Completed"


def test_a_success_policy_names_who_decides():
    fixture = JobSetFixture(successPolicy={"operator": "All", "targetReplicatedJobs": ["driver"]}).end("band-driver-0")
    assert conditions.is_true(fixture.job_set, "Completed")


def test_a_failed_job_fails_the_set():
    fixture = JobSetFixture().end("band-workers-1", "Failed")
    condition = conditions.find(fixture.job_set, "Failed")
    assert condition["message"] == "jobset failed due to one or more job failures (first failed job: band-workers-1)"


def test_all_jobs_start_again_while_restarts_are_left():
    fixture = JobSetFixture(failurePolicy={"maxRestarts": 1}).end("band-workers-1", "Failed")
    assert fixture.job_set["status"]["restarts"] == 1
    fixture.sync().sync()
    attempts = {objects.labels(job)["jobset.sigs.k8s.io/restart-attempt"] for job in fixture.api.of("Job")}
    assert (attempts, len(fixture.names())) == ({"1"}, 3)
    assert conditions.is_true(fixture.end("band-workers-0", "Failed").job_set, "Failed")


def test_suspension_reaches_every_job():
    fixture = JobSetFixture(suspend=True)
    assert all(job["spec"]["suspend"] for job in fixture.api.of("Job"))
    assert conditions.find(fixture.job_set, "Suspended")["reason"] == "SuspendedJobs"
    fixture.job_set["spec"]["suspend"] = False
    fixture.sync()
    assert not any(job["spec"]["suspend"] for job in fixture.api.of("Job"))


def test_in_order_waits_for_the_first_to_be_ready():
    fixture = JobSetFixture(startupPolicy={"startupPolicyOrder": "InOrder"})
    assert fixture.names() == ["band-driver-0"]
    fixture.api.get("Job", "band-driver-0")["status"] = {"active": 1, "ready": 1}
    assert len(fixture.sync().names()) == 3
