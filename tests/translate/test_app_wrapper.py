from pykueue.translate.jobs import app_wrapper, framework
from pykueue.translate.jobs.framework import JobOptions
from pykueue.translate.pod_set_info import PodSetInfo

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "job"},
    "spec": {"parallelism": 3, "template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}},
}


def wrapper(**component):
    return {"metadata": {"name": "aw"}, "spec": {"suspend": True, "components": [{"template": JOB, **component}]}}


def pod_sets(job):
    return [
        (pod_set["name"], pod_set["count"]) for pod_set in framework.pod_sets(app_wrapper.FRAMEWORK, job, JobOptions())
    ]


def test_pod_sets_follow_from_the_wrapped_kind():
    assert pod_sets(wrapper()) == [("aw-0", 3)]


def test_declared_pod_sets_come_first():
    assert pod_sets(wrapper(declaredPodSets=[{"path": "template.spec.template", "replicas": 5}])) == [("aw-0", 5)]


def test_a_start_hands_over_and_leaves_the_templates_alone():
    started = framework.started(
        app_wrapper.FRAMEWORK, wrapper(), [PodSetInfo(node_selector={"pool": "spot"})], JobOptions()
    )
    assert started["spec"]["components"][0] == {"template": JOB, "podSetInfos": [{"nodeSelector": {"pool": "spot"}}]}
    assert not started["spec"]["suspend"]


def test_a_stop_takes_back():
    running = wrapper(podSetInfos=[{"labels": {"a": "b"}}])
    assert framework.restored(app_wrapper.FRAMEWORK, running, [PodSetInfo()], JobOptions()) == wrapper()


def test_a_failed_wrapper_is_finished_once_its_resources_are_gone():
    deployed = {"type": "ResourcesDeployed", "status": "True"}
    failed = wrapper() | {"status": {"phase": "Failed", "conditions": [deployed]}}
    assert app_wrapper.FRAMEWORK.finished(failed) is None
    assert not app_wrapper.FRAMEWORK.finished(wrapper() | {"status": {"phase": "Failed"}}).is_success
