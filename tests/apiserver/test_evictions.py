"""`pods/eviction` respects PodDisruptionBudgets."""

import asyncio

import pytest
from tests.apiserver.api_requests import create, send

MERGE = "application/merge-patch+json"
PODS = "/api/v1/namespaces/default/pods"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def budget(name="b", **spec):
    spec = {"selector": {"matchLabels": {"app": "x"}}, **spec}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def eviction(name, **fields):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, **fields}


async def replica_set(api, replicas):
    """An owner reference to a new ReplicaSet."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    metadata = {"name": "r", "namespace": "default"}
    owner = await create(api, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})
    uid = owner.body["metadata"]["uid"]
    return [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": True}]


async def run_pods(api, *names, status=READY, owner=()):
    for name in names:
        metadata = {"name": name, "namespace": "default", "labels": {"app": "x"}, "ownerReferences": list(owner)}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        assert (await create(api, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).code == 201
        patch = await send(api, "PATCH", f"{PODS}/{name}/status", {"status": status}, content_type=MERGE)
        assert patch.code == 200


async def evict(api, name, **fields):
    return await send(api, "POST", f"{PODS}/{name}/eviction", eviction(name, **fields))


async def test_without_a_budget_a_pod_is_deleted(api):
    await run_pods(api, "a")
    assert (await evict(api, "a")).code == 201
    assert (await send(api, "GET", f"{PODS}/a")).code == 404
    assert (await evict(api, "a")).code == 404


@pytest.mark.parametrize("spec", [{"minAvailable": 2}, {"maxUnavailable": 1}, {"minAvailable": "60%"}])
async def test_a_budget_refuses_in_the_words_of_kubernetes(api, spec):
    await create(api, budget(**spec))
    await run_pods(api, "a", "b", "c", owner=await replica_set(api, 3))
    assert (await evict(api, "a", deleteOptions={"dryRun": ["All"]})).code == 201
    assert (await evict(api, "a")).code == 201
    refused = await evict(api, "b")
    assert (refused.code, refused.body["reason"]) == (429, "TooManyRequests")
    assert refused.message == "Cannot evict pod as it would violate the pod's disruption budget."
    why = "The disruption budget b needs 2 healthy pods and has 2 currently"
    assert refused.body["details"]["causes"] == [{"reason": "DisruptionBudget", "message": why}]


async def test_pods_without_a_controller_have_no_share(api):
    await create(api, budget(maxUnavailable=1))
    await run_pods(api, "a", "b")
    assert (await evict(api, "a")).code == 429


async def test_evictions_at_once_share_the_budget(api):
    await create(api, budget(minAvailable=3))
    await run_pods(api, *"abcde")
    codes = [answer.code for answer in await asyncio.gather(*(evict(api, name) for name in "abcde"))]
    assert sorted(codes) == [201, 201, 429, 429, 429]


async def test_pods_that_do_not_run_are_not_protected(api):
    await create(api, budget(minAvailable=5))
    await run_pods(api, "pending", status={"phase": "Pending"})
    await run_pods(api, "ended", status={"phase": "Succeeded"})
    assert (await evict(api, "pending")).code == 201
    assert (await evict(api, "ended")).code == 201


@pytest.mark.parametrize(("policy", "code"), [("IfHealthyBudget", 429), ("AlwaysAllow", 201)])
async def test_an_unhealthy_pod_follows_its_policy(api, policy, code):
    await create(api, budget(minAvailable=2, unhealthyPodEvictionPolicy=policy))
    await run_pods(api, "healthy")
    await run_pods(api, "sick", status={"phase": "Running"})
    assert (await evict(api, "sick")).code == code


async def test_two_budgets_for_one_pod(api):
    await create(api, budget("one", minAvailable=0))
    await create(api, budget("two", minAvailable=0))
    await run_pods(api, "a")
    answer = await evict(api, "a")
    assert (answer.code, "more than one PodDisruptionBudget" in answer.message) == (500, True)


async def test_the_status_shows_what_is_allowed(api):
    await run_pods(api, "a", "b", "c")
    await create(api, budget(minAvailable=2))
    target = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b"
    await asyncio.wait_for(api.core.disruption_budgets.queue.idle(), 10)
    status = (await send(api, "GET", target)).body["status"]
    numbers = {
        name: status[name] for name in ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    }
    assert numbers == {"currentHealthy": 3, "desiredHealthy": 2, "disruptionsAllowed": 1, "expectedPods": 3}
    assert status["conditions"][0]["reason"] == "SufficientPods"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec"),
        ({"minAvailable": -1}, "spec.minAvailable"),
        ({"maxUnavailable": "x"}, "spec.maxUnavailable"),
        ({"minAvailable": "101%"}, "spec.minAvailable"),
        ({"unhealthyPodEvictionPolicy": "Never"}, "spec.unhealthyPodEvictionPolicy"),
    ],
)
async def test_a_faulty_budget_names_the_field(api, spec, field):
    answer = await create(api, budget(**spec))
    assert answer.code == 422
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == [field]


@pytest.mark.parametrize(
    ("api_version", "kind", "fields"),
    [
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}},
        ),
        ("networking.k8s.io/v1", "NetworkPolicy", {"spec": {"podSelector": {}}}),
        (
            "networking.k8s.io/v1",
            "Ingress",
            {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
        ),
        ("storage.k8s.io/v1", "StorageClass", {"provisioner": "example.com/p"}),
        ("v1", "PersistentVolume", {"spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}}),
        ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", {"spec": {"priorityLevelConfiguration": {"name": "exempt"}}}),
    ],
)
async def test_kinds_without_effect_are_served_and_say_so(api, api_version, kind, fields):
    namespaced = api.scheme.for_kind(api_version, kind).namespaced
    metadata = {"name": "x", **({"namespace": "default"} if namespaced else {})}
    answer = await create(api, {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})
    assert answer.code == 201, answer.message
    assert answer.warnings[0].startswith(f"this {kind} is stored, but it has no effect: ")
