import pytest
from tests.cluster.operators.ray.ray_fixture import RayFixture, cluster_spec

from pykueue.api import objects


def status(fixture):
    return fixture.one("RayService").get("status", {})


def is_ready(fixture):
    (ready,) = [condition for condition in status(fixture)["conditions"] if condition["type"] == "Ready"]
    return ready["status"], ready["reason"]


def serving():
    return RayFixture().add_service().sync().start_pods().end_submitter()


def test_a_suspended_service_has_no_cluster():
    fixture = RayFixture().add_service(rayClusterConfig=cluster_spec(1) | {"suspend": True}).sync()
    assert fixture.api.of("RayCluster") == []
    assert is_ready(fixture) == ("False", "Initializing")


def test_applications_are_deployed_to_a_ready_cluster():
    fixture = RayFixture().add_service().sync()
    assert fixture.api.of("Job") == []
    fixture.start_pods()
    (variable,) = [
        entry
        for entry in fixture.one("Job")["spec"]["template"]["spec"]["containers"][0]["env"]
        if entry["name"] == "SERVE_CONFIG"
    ]
    assert "import_path: fruit:app" in variable["value"]
    assert is_ready(fixture) == ("False", "Initializing")


def test_a_service_whose_applications_run_is_ready():
    fixture = serving()
    assert is_ready(fixture) == ("True", "NonZeroServeEndpoints")
    current = status(fixture)
    assert (current["serviceStatus"], current["numServeEndpoints"]) == ("Running", 2)
    assert current["activeServiceStatus"]["applicationStatuses"] == {"fruit": {"status": "RUNNING"}}
    names = {objects.name(service) for service in fixture.api.of("Service")}
    assert {"app-head-svc", "app-serve-svc"} <= names


def test_suspending_removes_the_cluster_and_resuming_makes_another():
    fixture = serving()
    first = status(fixture)["activeServiceStatus"]["rayClusterName"]
    fixture.one("RayService")["spec"]["rayClusterConfig"]["suspend"] = True
    fixture.sync().collect()
    assert fixture.api.of("RayCluster") == fixture.api.of("Job") == fixture.api.of("Pod") == []
    fixture.one("RayService")["spec"]["rayClusterConfig"]["suspend"] = False
    fixture.sync()
    assert objects.name(fixture.one("RayCluster")) != first


def test_another_cluster_takes_over_when_it_serves():
    fixture = serving()
    first = status(fixture)["activeServiceStatus"]["rayClusterName"]
    fixture.one("RayService")["spec"]["rayClusterConfig"]["headGroupSpec"]["rayStartParams"] = {"num-cpus": "0"}
    fixture.sync()
    assert status(fixture)["activeServiceStatus"]["rayClusterName"] == first
    assert len(fixture.api.of("RayCluster")) == 2
    fixture.start_pods().collect().end_submitter().collect()
    assert objects.name(fixture.one("RayCluster")) == status(fixture)["activeServiceStatus"]["rayClusterName"] != first


def test_more_replicas_make_the_same_cluster_larger():
    fixture = serving()
    fixture.one("RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["replicas"] = 3
    fixture.sync()
    assert fixture.one("RayCluster")["spec"]["workerGroupSpecs"][0]["replicas"] == 3
    assert len(fixture.api.of("Pod")) == 4


@pytest.mark.parametrize("text", ["{", "[" * 5000, "a: " + "x" * 100_000, "- a\n" * 10_000, "a: &a [*a]"], ids=range(5))
def test_a_configuration_that_cannot_be_read_deploys_nothing(text):
    fixture = RayFixture().add_service(serveConfigV2=text).sync().start_pods()
    assert fixture.api.of("Job") == []
