import copy

import pytest
from tests.cluster.fake_api import FakeApi

from pykueue.api import objects
from pykueue.cluster import pod_control
from pykueue.cluster.operators import spark_application


class SparkFixture:
    def __init__(self, **spec):
        self.api = FakeApi()
        self.api.add(
            {
                "apiVersion": "sparkoperator.k8s.io/v1beta2",
                "kind": "SparkApplication",
                "metadata": {"name": "pi", "namespace": "ns"},
                "spec": {
                    "type": "Python",
                    "mainApplicationFile": "local:///opt/pi.py",
                    "arguments": ["50"],
                    "driver": {"coreRequest": "1", "memory": "512m"},
                    "executor": {"instances": 2, "coreRequest": "2", "memory": "1g"},
                }
                | spec,
            }
        )
        self.sync()

    @property
    def application(self):
        return self.api.get("SparkApplication", "pi")

    @property
    def state(self):
        return self.application["status"]["applicationState"]["state"]

    @property
    def driver(self):
        return self.api.get("Pod", "pi-driver")

    def names(self):
        return sorted(objects.name(pod) for pod in self.api.of("Pod"))

    def sync(self):
        self.api.run(spark_application.sync(copy.deepcopy(self.application), self.api.of("Pod"), self.api.now))
        return self

    def run(self):
        self.api.start_pod(self.driver)
        return self.sync()

    def end(self, exit_code=0):
        self.api.end_pod(self.driver, exit_code)
        return self.sync()


def test_the_driver_starts_first():
    fixture = SparkFixture()
    assert (fixture.names(), fixture.state) == (["pi-driver"], "SUBMITTED")
    assert fixture.run().names() == ["pi-driver", "pi-exec-1", "pi-exec-2"]
    assert fixture.state == "RUNNING"


def test_the_driver_runs_the_program_on_the_cores_of_all_pods():
    container = SparkFixture().driver["spec"]["containers"][0]
    assert container["command"] == ["spark-submit", "--master", "local[5]", "--name", "pi", "/opt/pi.py", "50"]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "512Mi"}


def test_a_command_of_the_template_stays():
    template = {"spec": {"containers": [{"name": "spark-kubernetes-driver", "command": ["true"]}]}}
    container = SparkFixture(driver={"template": template}).driver["spec"]["containers"][0]
    assert container["command"] == ["true"]


def test_executors_are_told_apart_in_the_status():
    fixture = SparkFixture().run()
    fixture.api.start_pod(fixture.api.get("Pod", "pi-exec-1"))
    assert fixture.sync().application["status"]["executorState"] == {"pi-exec-1": "RUNNING", "pi-exec-2": "PENDING"}


@pytest.mark.parametrize(("exit_code", "state"), [(0, "COMPLETED"), (3, "FAILED")])
def test_the_driver_decides_how_the_application_ends(exit_code, state):
    fixture = SparkFixture().run().end(exit_code)
    assert (fixture.state, fixture.names()) == (state, ["pi-driver"])


def test_a_failed_application_says_why():
    fixture = SparkFixture().run().end(3)
    message = fixture.application["status"]["applicationState"]["errorMessage"]
    assert message.startswith("driver container failed with ExitCode: 3")


def test_a_failed_driver_is_started_again_as_often_as_the_policy_says():
    fixture = SparkFixture(restartPolicy={"type": "OnFailure", "onFailureRetries": 1}).run().end(1)
    assert fixture.state == "PENDING_RERUN"
    fixture.sync().sync().run()
    assert (fixture.state, fixture.application["status"]["executionAttempts"]) == ("RUNNING", 2)
    assert fixture.end(1).state == "FAILED"


def test_a_suspended_application_has_no_pods():
    fixture = SparkFixture()
    fixture.application["spec"]["suspend"] = True
    assert fixture.sync().names() == []
    assert fixture.sync().state == "SUSPENDED"


def test_a_resumed_application_starts_over():
    fixture = SparkFixture()
    fixture.application["spec"]["suspend"] = True
    fixture.sync().sync()
    fixture.application["spec"]["suspend"] = False
    assert fixture.sync().names() == ["pi-driver"]


def test_executors_are_created_in_batches_whatever_their_number():
    fixture = SparkFixture(executor={"instances": 2**31 - 1}).run()
    assert len(fixture.names()) == 1 + pod_control.MOST_PER_SYNC
