"""What Kubernetes' own validation refuses in a pod, we refuse in pods and templates, and no more."""

import copy

import pytest
import yaml
from tests.api.rules import pod_annotation_cases, pod_cases, pod_volume_cases

REFUSED = [*pod_cases.REFUSED, *pod_volume_cases.REFUSED]
ACCEPTED = [*pod_cases.ACCEPTED, *pod_volume_cases.ACCEPTED]
LABELS = {"app": "a"}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/c"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"
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


def annotated(kind, case, annotations):
    obj = holder(kind, case)
    carrier = obj if kind == "Pod" else obj["spec"]["template"]
    carrier["metadata"]["annotations"] = annotations
    return obj


@pytest.mark.parametrize("kind", HOLDERS)
@pytest.mark.parametrize(("annotations", "case", "expected"), pod_annotation_cases.REFUSED)
def test_annotations_that_kubernetes_refuses_are_refused(admission, kind, annotations, case, expected):
    errors = faults(admission, annotated(kind, case, annotations))
    metadata = "metadata.annotations" if kind == "Pod" else "spec.template.annotations"
    expected = expected.replace("PATH", HOLDERS[kind][1]).replace("METADATA", metadata)
    assert any(expected in error for error in errors), errors


@pytest.mark.parametrize("kind", HOLDERS)
@pytest.mark.parametrize(("annotations", "case"), pod_annotation_cases.ACCEPTED)
def test_annotations_that_kubernetes_accepts_are_accepted(admission, kind, annotations, case):
    assert faults(admission, annotated(kind, case, annotations)) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {APPARMOR: "unconfined"}, f"[{APPARMOR}]: Forbidden: may not add AppArmor annotations"),
        ({APPARMOR: "unconfined"}, {}, f"[{APPARMOR}]: Forbidden: may not remove or update AppArmor annotations"),
        ({APPARMOR: "unconfined"}, {APPARMOR: ""}, "Forbidden: may not remove or update AppArmor annotations"),
        ({MIRROR: "a"}, {MIRROR: "b"}, f"[{MIRROR}]: Forbidden: may not remove or update mirror pod annotation"),
        ({}, {DELETION_COST: "x"}, f'[{DELETION_COST}]: Invalid value: "x": must be a 32bit integer'),
    ],
)
def test_updates_of_annotations_are_checked(admission, before, after, expected):
    old = admission.stored(annotated("Pod", "{nodeName: n}", before))
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = after
    errors = faults(admission, new, old)
    assert any(error.startswith("metadata.annotations") and error.endswith(expected) for error in errors), errors


def test_annotations_that_stay_are_not_checked_again(admission):
    old = admission.stored(annotated("Pod", "{}", {DELETION_COST: "x"}))
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"a": "b"}
    assert faults(admission, new, old) == []


@pytest.mark.parametrize("field", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("is_required", [True, False])
def test_terms_select_by_the_labels_of_their_pod(admission, field, is_required):
    term = {"topologyKey": "t", "labelSelector": {}, "matchLabelKeys": ["a", "none"], "mismatchLabelKeys": ["b"]}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if not is_required:
        rules = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    pod = holder("Pod", yaml.safe_dump({"affinity": {field: rules}}))
    pod["metadata"]["labels"] = {"a": "1", "b": "2"}
    stored = admission.stored(pod)
    [stored_term] = next(iter(stored["spec"]["affinity"][field].values()))
    assert stored_term.get("podAffinityTerm", stored_term)["labelSelector"]["matchExpressions"] == [
        {"key": "a", "operator": "In", "values": ["1"]},
        {"key": "b", "operator": "NotIn", "values": ["2"]},
    ]
    assert admission.stored(stored) == stored
    assert faults(admission, stored) == []


def spread_over(selector):
    constraint = {"maxSkew": 1, "topologyKey": "t", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["a"]}
    pod = holder("Pod", yaml.safe_dump({"topologySpreadConstraints": [constraint | selector]}))
    pod["metadata"]["labels"] = {"a": "1"}
    return pod


def test_spread_constraints_select_by_the_labels_of_their_pod(admission):
    [constraint] = admission.stored(spread_over({"labelSelector": {}}))["spec"]["topologySpreadConstraints"]
    assert constraint["labelSelector"] == {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}


def test_a_selector_with_a_key_of_the_pod_is_refused(admission):
    assert faults(admission, spread_over({"labelSelector": {"matchLabels": {"a": "1"}}})) == [
        'spec.topologySpreadConstraints[0][0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector'
    ]


def test_an_empty_service_account_is_the_default_one(admission):
    spec = admission.stored(holder("Pod", "{serviceAccountName: ''}"))["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")


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
