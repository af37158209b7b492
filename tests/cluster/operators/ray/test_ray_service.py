from tests.cluster.operators.ray.operator import Operator, cluster_spec

from pykueue.api import objects


def status(operator):
    return operator.one("RayService").get("status", {})


def is_ready(operator):
    (ready,) = [each for each in status(operator)["conditions"] if each["type"] == "Ready"]
    return ready["status"], ready["reason"]


def serving():
    return Operator().add_service().sync().start_pods().end_submitter()


def test_a_suspended_service_has_no_cluster():
    operator = Operator().add_service(rayClusterConfig=cluster_spec(1) | {"suspend": True}).sync()
    assert operator.world.of("RayCluster") == []
    assert is_ready(operator) == ("False", "Initializing")


def test_applications_are_deployed_to_a_ready_cluster():
    operator = Operator().add_service().sync()
    assert operator.world.of("Job") == []
    operator.start_pods()
    (variable,) = [
        each
        for each in operator.one("Job")["spec"]["template"]["spec"]["containers"][0]["env"]
        if each["name"] == "SERVE_CONFIG"
    ]
    assert "import_path: fruit:app" in variable["value"]
    assert is_ready(operator) == ("False", "Initializing")


def test_a_service_whose_applications_run_is_ready():
    operator = serving()
    assert is_ready(operator) == ("True", "NonZeroServeEndpoints")
    shown = status(operator)
    assert (shown["serviceStatus"], shown["numServeEndpoints"]) == ("Running", 2)
    assert shown["activeServiceStatus"]["applicationStatuses"] == {"fruit": {"status": "RUNNING"}}
    names = {objects.name(each) for each in operator.world.of("Service")}
    assert {"app-head-svc", "app-serve-svc"} <= names


def test_suspending_removes_the_cluster_and_resuming_makes_another():
    operator = serving()
    first = status(operator)["activeServiceStatus"]["rayClusterName"]
    operator.one("RayService")["spec"]["rayClusterConfig"]["suspend"] = True
    operator.sync().collect()
    assert operator.world.of("RayCluster") == operator.world.of("Job") == operator.world.of("Pod") == []
    operator.one("RayService")["spec"]["rayClusterConfig"]["suspend"] = False
    operator.sync()
    assert objects.name(operator.one("RayCluster")) != first


def test_another_cluster_takes_over_when_it_serves():
    operator = serving()
    first = status(operator)["activeServiceStatus"]["rayClusterName"]
    operator.one("RayService")["spec"]["rayClusterConfig"]["headGroupSpec"]["rayStartParams"] = {"num-cpus": "0"}
    operator.sync()
    assert status(operator)["activeServiceStatus"]["rayClusterName"] == first
    assert len(operator.world.of("RayCluster")) == 2
    operator.start_pods().collect().end_submitter().collect()
    assert (
        objects.name(operator.one("RayCluster")) == status(operator)["activeServiceStatus"]["rayClusterName"] != first
    )


def test_more_replicas_make_the_same_cluster_larger():
    operator = serving()
    operator.one("RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["replicas"] = 3
    operator.sync()
    assert operator.one("RayCluster")["spec"]["workerGroupSpecs"][0]["replicas"] == 3
    assert len(operator.world.of("Pod")) == 4
