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
