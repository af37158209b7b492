from tests.cluster.operators.ray.operator import Operator


def state(operator):
    status = operator.one("RayJob").get("status", {})
    return status.get("jobDeploymentStatus"), status.get("jobStatus")


def running(**spec):
    return Operator().add_job(**spec).sync().start_pods()


def test_a_suspended_job_waits():
    operator = Operator().add_job(suspend=True).sync()
    assert state(operator) == ("Suspended", None)
    assert operator.world.of("RayCluster") == []


def test_a_job_makes_its_cluster_and_waits_for_it():
    operator = Operator().add_job().sync()
    assert state(operator) == ("Initializing", None)
    name = operator.one("RayCluster")["metadata"]["name"]
    assert name.startswith("dev-raycluster-")
    assert operator.one("RayJob")["status"]["rayClusterName"] == name


def test_a_ready_cluster_gets_a_submitter_named_as_the_job():
    operator = running()
    assert state(operator) == ("Running", "PENDING")
    assert operator.one("Job")["metadata"]["name"] == "dev"
    assert operator.one("RayJob")["status"]["rayClusterStatus"]["state"] == "ready"


def test_a_running_submitter_means_a_running_job():
    operator = running()
    operator.one("Job")["status"] = {"ready": 1}
    assert state(operator.sync()) == ("Running", "RUNNING")


def test_success():
    operator = running().end_submitter()
    assert state(operator) == ("Complete", "SUCCEEDED")
    assert operator.one("RayJob")["status"]["endTime"]


def test_failure():
    operator = running().end_submitter("Failed")
    assert state(operator) == ("Failed", "FAILED")
    assert operator.one("RayJob")["status"]["reason"] == "AppFailed"


def test_a_failed_job_is_retried_on_a_new_cluster():
    operator = running(backoffLimit=1)
    first = operator.one("RayCluster")["metadata"]["name"]
    operator.end_submitter("Failed").collect()
    assert operator.one("RayCluster")["metadata"]["name"] != first


def test_suspending_removes_everything_and_resuming_begins_anew():
    operator = running()
    operator.one("RayJob")["spec"]["suspend"] = True
    operator.sync().collect()
    assert state(operator) == ("Suspended", None)
    assert operator.world.of("Job") == operator.world.of("RayCluster") == operator.world.of("Pod") == []
    operator.one("RayJob")["spec"]["suspend"] = False
    assert state(operator.sync().start_pods())[0] == "Running"


def test_the_cluster_goes_when_the_job_is_done_if_asked():
    operator = running(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=60).end_submitter()
    assert len(operator.world.of("RayCluster")) == 1
    operator.world.pass_time(60)
    operator.sync()
    assert operator.world.of("RayCluster") == []


def test_the_deadline_fails_the_job():
    operator = running(activeDeadlineSeconds=10)
    operator.world.pass_time(10)
    assert state(operator.sync())[0] == "Failed"
    assert operator.one("RayJob")["status"]["reason"] == "DeadlineExceeded"


def test_the_simulated_submitter_takes_the_time_of_the_entrypoint():
    annotations = running().one("Job")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["pykueue.dev/runtime"] == "30"
