import copy

from tests.cluster.fake_api import FakeApi

from pykueue.api import conditions, objects
from pykueue.cluster.operators import app_wrapper

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "member"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
_PREFIX = "workload.codeflare.dev.appwrapper/"


class AppWrapperFixture:
    def __init__(self, *templates, annotations=None, infos=()):
        self.api = FakeApi()
        pod_set = {"podSets": [{"path": "template", "replicas": 1}], "podSetInfos": list(infos)}
        components = [
            {"template": template} | (pod_set if template["kind"] == "Pod" else {}) for template in templates or (POD,)
        ]
        self.api.add(
            {
                "apiVersion": "workload.codeflare.dev/v1beta2",
                "kind": "AppWrapper",
                "metadata": {"name": "wrap", "namespace": "ns", "annotations": annotations or {}},
                "spec": {"components": components, "suspend": False},
            }
        )
        self.sync()

    @property
    def wrapper(self):
        return self.api.get("AppWrapper", "wrap")

    @property
    def phase(self):
        return self.wrapper["status"]["phase"]

    @property
    def pod(self):
        return self.api.get("Pod", "member")

    def pods(self):
        return self.api.of("Pod")

    def sync(self):
        sync = app_wrapper.reconciler(lambda _wrapper: self.pods())
        self.api.run(sync(copy.deepcopy(self.wrapper), self.pods(), self.api.now))
        return self

    def suspend(self, *, is_suspended=True):
        self.wrapper["spec"]["suspend"] = is_suspended
        return self.sync()

    def end(self, exit_code=0):
        self.api.end_pod(self.pod, exit_code)
        return self.sync()


def test_a_resumed_wrapper_creates_its_components():
    fixture = AppWrapperFixture(POD, SETTINGS)
    assert objects.name(fixture.api.get("ConfigMap", "settings")) == "settings"
    assert objects.controller_of(fixture.pod)["name"] == "wrap"
    assert objects.labels(fixture.pod)[app_wrapper.LABEL] == "wrap"


def test_a_component_that_is_not_watched_is_created_once():
    fixture = AppWrapperFixture(POD, SETTINGS)
    uid = objects.uid(fixture.api.get("ConfigMap", "settings"))
    assert objects.uid(fixture.sync().sync().api.get("ConfigMap", "settings")) == uid


def test_what_an_admission_adds_is_in_the_pods():
    info = {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "spot", "operator": "Exists"}], "labels": {"x": "y"}}
    fixture = AppWrapperFixture(infos=[info])
    assert fixture.pod["spec"]["nodeSelector"] == {"zone": "a"}
    assert fixture.pod["spec"]["tolerations"] == info["tolerations"]
    assert objects.labels(fixture.pod)["x"] == "y"


def test_pods_are_ready_when_all_are():
    fixture = AppWrapperFixture().sync()
    assert not conditions.is_true(fixture.wrapper, "PodsReady")
    fixture.api.start_pod(fixture.pod)
    assert conditions.is_true(fixture.sync().wrapper, "PodsReady")


def test_it_succeeds_with_its_last_pod():
    assert AppWrapperFixture().sync().end().phase == "Succeeded"


def test_a_suspended_wrapper_keeps_its_quota_until_its_pods_are_gone():
    fixture = AppWrapperFixture().sync()
    fixture.api.start_pod(fixture.pod)
    assert (fixture.suspend().phase, conditions.is_true(fixture.wrapper, "QuotaReserved")) == ("Suspending", True)
    fixture.api.end_pod(fixture.pod)
    assert (fixture.sync().phase, conditions.is_true(fixture.wrapper, "QuotaReserved")) == ("Suspended", False)


def test_a_wrapper_runs_again_after_it_was_suspended():
    fixture = AppWrapperFixture().suspend().sync()
    assert fixture.pods() == []
    assert objects.name(fixture.suspend(is_suspended=False).pod) == "member"


def test_a_failed_pod_starts_the_components_again_after_the_grace_period():
    fixture = AppWrapperFixture(annotations={f"{_PREFIX}retryPausePeriodDuration": "10s"}).sync().end(exit_code=1)
    assert fixture.phase == "Running"
    fixture.api.pass_time(60)
    assert fixture.sync().phase == "Resetting"
    assert fixture.sync().pods() == []
    fixture.api.pass_time(10)
    assert objects.name(fixture.sync().sync().pod) == "member"


def test_a_wrapper_fails_when_its_retries_are_used_up():
    annotations = {f"{_PREFIX}retryLimit": "0", f"{_PREFIX}failureGracePeriodDuration": "0s"}
    fixture = AppWrapperFixture(annotations=annotations).sync().end(exit_code=1)
    assert fixture.phase == "Failed"
    assert not conditions.is_true(fixture.wrapper, "ResourcesDeployed")


def test_a_duration_that_is_none_counts_as_absent():
    fixture = AppWrapperFixture(annotations={f"{_PREFIX}failureGracePeriodDuration": "soon"}).sync().end(exit_code=1)
    fixture.api.pass_time(59)
    assert fixture.sync().phase == "Running"
