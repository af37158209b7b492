import pytest
from tests.cluster.operators.ray.ray_fixture import RayFixture


def state(fixture):
    status = fixture.one("RayJob").get("status", {})
    return status.get("jobDeploymentStatus"), status.get("jobStatus")


def running(**spec):
    return RayFixture().add_job(**spec).sync().start_pods()


def test_a_suspended_job_waits():
    fixture = RayFixture().add_job(suspend=True).sync()
    assert state(fixture) == ("Suspended", None)
    assert fixture.api.of("RayCluster") == []


def test_a_job_makes_its_cluster_and_waits_for_it():
    fixture = RayFixture().add_job().sync()
    assert state(fixture) == ("Initializing", None)
    name = fixture.one("RayCluster")["metadata"]["name"]
    assert name.startswith("dev-raycluster-")
    assert fixture.one("RayJob")["status"]["rayClusterName"] == name


def test_a_ready_cluster_gets_a_submitter_named_as_the_job():
    fixture = running()
    assert state(fixture) == ("Running", "PENDING")
    assert fixture.one("Job")["metadata"]["name"] == "dev"
    assert fixture.one("RayJob")["status"]["rayClusterStatus"]["state"] == "ready"


def test_a_running_submitter_means_a_running_job():
    fixture = running()
    fixture.one("Job")["status"] = {"ready": 1}
    assert state(fixture.sync()) == ("Running", "RUNNING")


def test_success():
    fixture = running().end_submitter()
    assert state(fixture) == ("Complete", "SUCCEEDED")
    assert fixture.one("RayJob")["status"]["endTime"]


def test_failure():
    fixture = running().end_submitter("Failed")
    assert state(fixture) == ("Failed", "FAILED")
    assert fixture.one("RayJob")["status"]["reason"] == "AppFailed"


def test_a_failed_job_is_retried_on_a_new_cluster():
    fixture = running(backoffLimit=1)
    first = fixture.one("RayCluster")["metadata"]["name"]
    fixture.end_submitter("Failed").collect()
    assert fixture.one("RayCluster")["metadata"]["name"] != first


def test_suspending_removes_everything_and_resuming_starts_again():
    fixture = running()
    fixture.one("RayJob")["spec"]["suspend"] = True
    fixture.sync().collect()
    assert state(fixture) == ("Suspended", None)
    assert fixture.api.of("Job") == fixture.api.of("RayCluster") == fixture.api.of("Pod") == []
    fixture.one("RayJob")["spec"]["suspend"] = False
    assert state(fixture.sync().start_pods())[0] == "Running"


def test_shutdown_after_job_finishes_deletes_the_cluster():
    fixture = running(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=60).end_submitter()
    assert len(fixture.api.of("RayCluster")) == 1
    fixture.api.pass_time(60)
    fixture.sync()
    assert fixture.api.of("RayCluster") == []


def test_the_deadline_fails_the_job():
    fixture = running(activeDeadlineSeconds=10)
    fixture.api.pass_time(10)
    assert state(fixture.sync())[0] == "Failed"
    assert fixture.one("RayJob")["status"]["reason"] == "DeadlineExceeded"


def test_the_simulated_submitter_takes_the_time_of_the_entrypoint():
    annotations = running().one("Job")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["pykueue.dev/runtime"] == "30"


BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))


@pytest.mark.parametrize(
    "text", ["{", "[" * 5000, "a: " + "x" * 100_000, "- a\n" * 10_000, BOMB, "a: &a [*a]"], ids=range(6)
)
def test_a_runtime_environment_that_cannot_be_read_fails_the_job(text):
    fixture = RayFixture().add_job(runtimeEnvYAML=text).sync()
    assert state(fixture) == ("ValidationFailed", None)
    assert "failed to unmarshal RuntimeEnvYAML" in fixture.one("RayJob")["status"]["message"]
    assert fixture.api.of("RayCluster") == []


def test_a_runtime_environment_is_submitted_as_json():
    fixture = running(runtimeEnvYAML="pip: [requests]\nsince: 2026-01-01\n")
    script = fixture.one("Job")["spec"]["template"]["spec"]["containers"][0]["args"][0]
    assert """--runtime-env-json '{"pip": ["requests"], "since": "2026-01-01"}'""" in script
