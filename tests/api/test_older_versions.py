"""Older versions of Kubernetes' kinds keep their meaning in the stored version and back."""

import pytest

from pykueue.api.builtin import older_versions

CLAIM = {
    "apiVersion": "resource.k8s.io/v1beta1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c"},
    "spec": {
        "devices": {
            "requests": [
                {"name": "one", "deviceClassName": "gpu", "count": 2, "allocationMode": "ExactCount"},
                {"name": "two", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
            ]
        }
    },
}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1beta1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "t"},
    "spec": {"spec": CLAIM["spec"]},
}
SLICE = {
    "apiVersion": "resource.k8s.io/v1beta1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {"driver": "d", "devices": [{"name": "gpu-0", "basic": {"capacity": {"memory": {"value": "1Gi"}}}}]},
}
CLASS = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}


@pytest.mark.parametrize("obj", [CLAIM, TEMPLATE, SLICE, CLASS], ids=lambda obj: obj["kind"])
def test_devices_come_back_as_they_were(obj):
    assert older_versions.devices_to_v1beta1(older_versions.devices_from_v1beta1(obj)) == obj


def test_a_request_of_v1beta1_is_exact():
    stored = older_versions.devices_from_v1beta1(CLAIM)["spec"]["devices"]["requests"]
    assert stored[0]["exactly"] == {"deviceClassName": "gpu", "count": 2, "allocationMode": "ExactCount"}
    assert "exactly" not in stored[1]


def test_a_device_of_v1beta1_has_its_fields_in_basic():
    (device,) = older_versions.devices_from_v1beta1(SLICE)["spec"]["devices"]
    assert device == {"name": "gpu-0", "capacity": {"memory": {"value": "1Gi"}}}


def autoscaler(**spec):
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 3} | spec,
    }


def test_the_cpu_target_is_a_metric():
    stored = older_versions.autoscaler_from_v1(autoscaler(targetCPUUtilizationPercentage=80))
    target = {"type": "Utilization", "averageUtilization": 80}
    assert stored["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    assert older_versions.autoscaler_to_v1(stored) == autoscaler(targetCPUUtilizationPercentage=80)


def test_other_metrics_survive_a_client_of_v1():
    metrics = [{"type": "Pods", "pods": {"metric": {"name": "x"}, "target": {"type": "AverageValue"}}}]
    stored = {**autoscaler(metrics=metrics), "apiVersion": "autoscaling/v2"}
    assert older_versions.autoscaler_from_v1(older_versions.autoscaler_to_v1(stored))["spec"]["metrics"] == metrics


def test_an_unreadable_annotation_is_ignored():
    obj = autoscaler()
    obj["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/metrics": "{"}
    assert "metrics" not in older_versions.autoscaler_from_v1(obj)["spec"]
