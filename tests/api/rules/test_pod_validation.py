"""What Kubernetes' own validation refuses in a pod, we refuse in pods and templates, and no more."""

import copy

import pytest
import yaml
from tests.api.rules.pod_cases import ACCEPTED, REFUSED

LABELS = {"app": "a"}
HOLDERS = {
    "Pod": ("v1", "spec"),
    "Job": ("batch/v1", "spec.template.spec"),
    "Deployment": ("apps/v1", "spec.template.spec"),
    "StatefulSet": ("apps/v1", "spec.template.spec"),
}


def pod_spec(case, restart_policy):
    spec = yaml.safe_load(case)
    container = {"name": "c", "image": "x"} | spec.pop("container", {})
    return {"restartPolicy": restart_policy, "containers": [container], **spec}


def holder(kind, case):
    api_version, _ = HOLDERS[kind]
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "ns"}}
    spec = pod_spec(case, "Never" if kind in ("Pod", "Job") else "Always")
    if kind == "Pod":
        return obj | {"spec": spec}
    template = {"metadata": {"labels": dict(LABELS)}, "spec": spec}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": dict(LABELS)}}
    return obj | {"spec": {"template": template, **selector}}


def faults(admission, obj, old=None, subresource=""):
    stored = admission.stored(obj, old) if not subresource else copy.deepcopy(obj)
    return [str(error) for error in admission.verdict(stored, old, subresource).invalid]


@pytest.mark.parametrize("kind", HOLDERS)
@pytest.mark.parametrize(("case", "expected"), REFUSED, ids=range(len(REFUSED)))
def test_what_kubernetes_refuses_is_refused(admission, kind, case, expected):
    errors = faults(admission, holder(kind, case))
    assert any(expected.replace("PATH", HOLDERS[kind][1]) in error for error in errors), errors


@pytest.mark.parametrize("kind", HOLDERS)
@pytest.mark.parametrize("case", ACCEPTED)
def test_what_kubernetes_accepts_is_accepted(admission, kind, case):
    assert faults(admission, holder(kind, case)) == []


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"kubernetes.io/config.mirror": "x"}, "must set spec.nodeName if mirror pod annotation is set"),
        ({"controller.kubernetes.io/pod-deletion-cost": "+1"}, "must be a 32bit integer"),
        ({"controller.kubernetes.io/pod-deletion-cost": "007"}, "must be a 32bit integer"),
        ({"controller.kubernetes.io/pod-deletion-cost": "99999999999"}, "must be a 32bit integer"),
    ],
)
def test_annotations_of_pods_are_checked(admission, annotations, expected):
    pod = holder("Pod", "{}")
    pod["metadata"]["annotations"] = annotations
    assert any(expected in error for error in faults(admission, pod))


@pytest.mark.parametrize("key", ["../x", "..", ".", "a/b", "..data", "a b", "x" * 254, ""])
@pytest.mark.parametrize(("kind", "field"), [("ConfigMap", "data"), ("ConfigMap", "binaryData"), ("Secret", "data")])
def test_keys_are_file_names(admission, kind, field, key):
    obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "namespace": "ns"}, field: {key: "eA=="}}
    assert any(error.startswith(f"{field}[{key}]: Invalid value") for error in faults(admission, obj))


def test_what_is_immutable_stays(admission):
    old = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}, "immutable": True}
    assert faults(admission, old | {"data": {"a": "c"}}, old) == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]
