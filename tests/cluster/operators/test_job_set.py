import copy

from tests.cluster.world import World

from pykueue.api import conditions, objects
from pykueue.cluster.operators import job_set

JOB = {"spec": {"parallelism": 1, "completions": 1, "template": {"spec": {"containers": []}}}}


class Band:
    def __init__(self, **spec):
        self.world = World()
        replicated = [{"name": "driver", "template": JOB}, {"name": "workers", "replicas": 2, "template": JOB}]
        self.world.add(
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
        return self.world.get("JobSet", "band")

    def names(self):
        return sorted(objects.name(job) for job in self.world.of("Job"))

    def sync(self):
        self.world.run(job_set.sync(copy.deepcopy(self.job_set), self.world.of("Job"), self.world.now))
        return self

    def end(self, name, type_="Complete"):
        self.world.get("Job", name)["status"] = {"conditions": [{"type": type_, "status": "True"}]}
        return self.sync()


def test_jobs_are_named_by_role_and_index():
    assert Band().names() == ["band-driver-0", "band-workers-0", "band-workers-1"]


def test_it_completes_with_its_last_job():
    band = Band().end("band-driver-0").end("band-workers-0")
    assert not conditions.is_true(band.job_set, "Completed")
    assert conditions.is_true(band.end("band-workers-1").job_set, "Completed")
    assert band.job_set["status"]["terminalState"] == "Completed"


def test_a_success_policy_names_who_decides():
    band = Band(successPolicy={"operator": "All", "targetReplicatedJobs": ["driver"]}).end("band-driver-0")
    assert conditions.is_true(band.job_set, "Completed")


def test_a_failed_job_fails_the_set():
    band = Band().end("band-workers-1", "Failed")
    told = conditions.find(band.job_set, "Failed")
    assert told["message"] == "jobset failed due to one or more job failures (first failed job: band-workers-1)"


def test_all_jobs_start_again_while_restarts_are_left():
    band = Band(failurePolicy={"maxRestarts": 1}).end("band-workers-1", "Failed")
    assert band.job_set["status"]["restarts"] == 1
    band.sync().sync()
    attempts = {objects.labels(job)["jobset.sigs.k8s.io/restart-attempt"] for job in band.world.of("Job")}
    assert (attempts, len(band.names())) == ({"1"}, 3)
    assert conditions.is_true(band.end("band-workers-0", "Failed").job_set, "Failed")


def test_suspension_reaches_every_job():
    band = Band(suspend=True)
    assert all(job["spec"]["suspend"] for job in band.world.of("Job"))
    assert conditions.find(band.job_set, "Suspended")["reason"] == "SuspendedJobs"
    band.job_set["spec"]["suspend"] = False
    band.sync()
    assert not any(job["spec"]["suspend"] for job in band.world.of("Job"))


def test_in_order_waits_for_the_first_to_be_ready():
    band = Band(startupPolicy={"startupPolicyOrder": "InOrder"})
    assert band.names() == ["band-driver-0"]
    band.world.get("Job", "band-driver-0")["status"] = {"active": 1, "ready": 1}
    assert len(band.sync().names()) == 3
