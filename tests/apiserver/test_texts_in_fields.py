"""JSON in annotations, which a later request decodes: it may be anything, and costs its length."""

import json

import pytest
from tests.apiserver.api_requests import create, send

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
METRICS = "autoscaling.alpha.kubernetes.io/metrics"
UNCONVERTED = "pykueue.dev/fields-of-other-version"
CONSTRAINTS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
TEXTS = {
    "not JSON": "{",
    "a number": "5",
    "a list": "[1]",
    "deep lists": "[" * 2000,
    "deep objects": '{"a":' * 5000 + "1" + "}" * 5000,
    "deep data": '{"data":' + '{"a":' * 900 + "1" + "}" * 901,
    "long number": '{"data":' + "9" * 5000 + "}",
    "infinite": '{"data":1e999}',
    "other types": '{"metadata":5,"spec":[],"kind":{},"status":"x"}',
    "other types below": '{"metadata":{"finalizers":5,"ownerReferences":{"uid":[]},"labels":[1]},"data":[[]]}',
    "surrogate": "\ud800",
}


@pytest.fixture
async def namespace(api):
    await create(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
    return "ml"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_apply_over_what_a_client_says_to_have_applied(api, namespace, text):
    metadata = {"name": "c", "namespace": namespace, "annotations": {LAST_APPLIED: text}}
    created = await create(api, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
    if created.code == 201:
        path = f"/api/v1/namespaces/{namespace}/configmaps/c?fieldManager=kubectl&force=true"
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "c"}}
        answer = await send(api, "PATCH", path, applied, content_type="application/apply-patch+yaml")
        assert answer.code == 200
        conflict = await send(
            api, "PATCH", path.replace("&force=true", ""), applied, content_type="application/apply-patch+yaml"
        )
        assert conflict.code in (200, 409)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_metrics_of_an_older_version(api, namespace, text):
    target = {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3}
    metadata = {"name": "a", "namespace": namespace, "annotations": {METRICS: text}}
    obj = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": target}
    assert (await create(api, obj)).code in (201, 400, 403, 422)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_fields_of_another_version(api, namespace, text):
    metadata = {"name": "q", "namespace": namespace, "annotations": {UNCONVERTED: text}}
    obj = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": metadata,
        "spec": {"clusterQueue": "q"},
    }
    assert (await create(api, obj)).code in (201, 400, 403, 422)
    path = f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{namespace}/localqueues"
    assert (await send(api, "GET", path)).code == 200


@pytest.mark.parametrize("text", [*TEXTS.values(), json.dumps([{"topology": "a", "size": 1}])], ids=[*TEXTS, "valid"])
async def test_constraints_of_a_topology(api, namespace, text):
    template = {
        "metadata": {
            "annotations": {CONSTRAINTS: text, "kueue.x-k8s.io/podset-required-topology": "a"},
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    metadata = {"name": "j", "namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    assert (await create(api, job)).code in (201, 400, 403, 422)
