import pytest

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
SELECTOR = {"matchLabels": {"app": "a"}}
LABELLED = {"labels": {"app": "a"}}
GROUP = "kueue.x-k8s.io/pod-group-name"
COUNT = "kueue.x-k8s.io/pod-group-total-count"


def pod(labels=None, annotations=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "labels": labels or {}, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}], **spec},
    }


def queued(**annotations):
    return pod(labels={QUEUE_NAME: "lq"}, annotations=annotations)


def stateful_set(queue="lq", replicas=1, image="x", cpu="1", ready=0, **status):
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
    labels = {QUEUE_NAME: queue} if queue else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s", "namespace": "ns", "uid": "u", "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": SELECTOR,
            "template": {"metadata": LABELLED, "spec": {"containers": [container]}},
        },
        "status": {"readyReplicas": ready, **status},
    }


def deployment(queue="lq", ready=0):
    labels = {QUEUE_NAME: queue} if queue else {}
    pod_spec = {"containers": [{"name": "c", "image": "x"}]}
    spec = {"selector": SELECTOR, "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod_spec}}
    metadata = {"name": "d", "namespace": "ns", "labels": labels}
    status = {"readyReplicas": ready}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec, "status": status}


def test_queued_pod_is_gated_and_marked(admission):
    stored = admission.stored(queued())
    assert stored["spec"]["schedulingGates"] == [
        {"name": "kueue.x-k8s.io/admission"},
        {"name": "kueue.x-k8s.io/topology"},
    ]
    assert stored["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
    assert stored["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"


def test_role_hash_is_the_one_that_kueue_gives(admission):
    assert admission.stored(queued())["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] == "4b0469f7"


def test_pods_of_one_shape_have_one_role(admission):
    first, second = queued(), queued()
    second["spec"]["containers"][0] |= {"name": "other", "image": "y"}
    roles = [
        admission.stored(version)["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] for version in (first, second)
    ]
    assert roles[0] == roles[1]
    assert len(roles[0]) == 8


def test_pods_that_ask_for_more_have_another_role(admission):
    first, second = queued(), queued()
    second["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    roles = [
        admission.stored(version)["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] for version in (first, second)
    ]
    assert roles[0] != roles[1]


def test_pod_without_a_queue_is_left_alone(admission):
    assert "schedulingGates" not in admission.stored(pod())["spec"]


def test_pod_of_a_suspending_parent_is_gated_without_finalizer(admission):
    stored = admission.stored(pod(annotations={"kueue.x-k8s.io/pod-suspending-parent": "deployment"}))
    assert stored["spec"]["schedulingGates"][0] == {"name": "kueue.x-k8s.io/admission"}
    assert "finalizers" not in stored["metadata"]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (pod(labels={"kueue.x-k8s.io/managed": "no"}), "metadata.labels[kueue.x-k8s.io/managed]: Forbidden: managed label value can only be 'true'"),
        (pod(annotations={COUNT: "2"}), f"metadata.labels[{GROUP}]: Required value: both the '{COUNT}' annotation and the '{GROUP}' label should be set"),
        (pod(labels={GROUP: "g"}), f"metadata.annotations[{COUNT}]: Required value: both the '{COUNT}' annotation and the '{GROUP}' label should be set"),
        (
            pod(labels={GROUP: "g"}, annotations={COUNT: "0"}),
            f"metadata.annotations[{COUNT}]: Invalid value: \"0\": incorrect annotation value '{COUNT}=0': group total count should be greater than zero",
        ),
        (
            pod(labels={GROUP: "g"}, annotations={COUNT: "1", "kueue.x-k8s.io/prebuilt-workload-name": "w"}),
            'metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]: Invalid value: "w": prebuilt workload and pod group should be equal',
        ),
        (
            pod(annotations={"kueue.x-k8s.io/podset-unconstrained-topology": "perhaps"}),
            'metadata.annotations[kueue.x-k8s.io/podset-unconstrained-topology]: Invalid value: "perhaps": must be a boolean value',
        ),
    ],
)  # fmt: skip
def test_refused(admission, refused, why):
    assert admission.refusal(refused) == why


def test_group_name_is_immutable(admission):
    old, new = (pod(labels={GROUP: name}, annotations={COUNT: "1"}) for name in ("g", "h"))
    assert admission.refusal(new, old) == f'metadata.labels[{GROUP}]: Invalid value: "h": field is immutable'


def test_unretriable_group_stays_so(admission):
    old = pod(labels={GROUP: "g"}, annotations={COUNT: "1", "kueue.x-k8s.io/retriable-in-group": "false"})
    new = pod(labels={GROUP: "g"}, annotations={COUNT: "1"})
    assert "unretriable pod group can't be converted to retriable" in admission.refusal(new, old)


def test_deployment_hands_its_queue_to_its_pods(admission):
    template = admission.stored(deployment())["spec"]["template"]["metadata"]
    assert template["annotations"] == {"kueue.x-k8s.io/pod-suspending-parent": "deployment"}
    assert template["labels"] == {"app": "a", "kueue.x-k8s.io/managed": "true", QUEUE_NAME: "lq"}


@pytest.mark.parametrize("kind", [deployment, stateful_set])
def test_queue_is_fixed_once_a_pod_is_ready(admission, kind):
    assert "field is immutable" in admission.refusal(kind("other"), kind(ready=1))


@pytest.mark.parametrize("kind", [deployment, stateful_set])
def test_queue_may_not_be_removed(admission, kind):
    assert "field is immutable" in admission.refusal(kind(None), kind())


def test_stateful_set_marks_its_pods(admission):
    template = admission.stored(stateful_set())["spec"]["template"]["metadata"]
    assert template["annotations"] == {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"}


def test_stateful_set_scales_only_from_or_to_zero(admission):
    assert (
        admission.refusal(stateful_set(replicas=3), stateful_set())
        == "spec.replicas: Invalid value: 3: field is immutable"
    )
    assert admission.refusal(stateful_set(replicas=0), stateful_set()) == ""


def test_stateful_set_waits_for_its_old_pods(admission):
    refusal = admission.refusal(stateful_set() | {"status": {"replicas": 1}}, stateful_set(replicas=0))
    assert refusal == "spec.replicas: Forbidden: scaling down is still in progress"


def test_role_of_a_stateful_set_is_immutable(admission):
    refusal = admission.refusal(stateful_set(cpu="2"), stateful_set())
    assert refusal == (
        'spec.template.spec.containers[0].resources.requests: Invalid value: {"cpu":"2"}: field is immutable'
    )


def test_image_of_a_stateful_set_may_change(admission):
    assert admission.refusal(stateful_set(image="y"), stateful_set()) == ""
