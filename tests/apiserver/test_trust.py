"""Who is a controller: a service account whose rights only an administrator can give."""

import pytest
from tests.apiserver.api_requests import binding, cluster_role, create, namespace, rule, send, user

QUEUE = "kueue.x-k8s.io/queue-name"
LAB = user("system:serviceaccount:lab:bot", "system:serviceaccounts", "system:serviceaccounts:lab")
ACCOUNT = {"kind": "ServiceAccount", "name": "bot", "namespace": "lab"}
EDIT = cluster_role("everything", rule("*", "*", "*"))
BOSS = user("boss")
MERGE = "application/merge-patch+json"
IGNORED = {"metadata": {"annotations": {"pykueue.dev/memory-limit": "ignore"}}}


def child(uid):
    """A Job that says that another one controls it, so that it would need no quota of its own."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": uid, "controller": True}
    return job("child") | {"metadata": {"name": "child", "namespace": "ml", "ownerReferences": [owner]}}


def job(name):
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "namespace": "ml", "labels": {QUEUE: "main"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": spec}}}


@pytest.fixture
async def parent(api):
    for name in ("ml", "lab"):
        await create(api, namespace(name))
    await create(api, EDIT)
    return (await create(api, job("parent"))).body["metadata"]["uid"]


@pytest.mark.parametrize(("where", "code"), [("ml", 422), ("", 201)])
async def test_an_account_of_another_namespace_is_trusted_if_its_rights_are_everywhere(api, parent, where, code):
    await create(api, binding("everything", ACCOUNT, namespace=where))
    assert (await create(api, child(parent), by=LAB)).code == code


@pytest.mark.usefixtures("parent")
async def test_accounts_without_rights_everywhere_orphan_no_pods(api):
    await create(api, binding("everything", ACCOUNT, namespace="ml"))
    answer = await send(api, "DELETE", "/apis/batch/v1/namespaces/ml/jobs/parent?propagationPolicy=Orphan", by=LAB)
    assert (answer.code, "orphaned" in answer.message) == (403, True)


@pytest.mark.usefixtures("parent")
@pytest.mark.parametrize(("where", "code"), [("ml", 422), ("", 200)])
async def test_all_rights_in_a_namespace_do_not_lift_its_limits(api, where, code):
    await create(api, binding("everything", "boss", namespace=where))
    answer = await send(api, "PATCH", "/api/v1/namespaces/ml", IGNORED, by=BOSS, content_type=MERGE)
    assert answer.code == code
    own_label = {"metadata": {"labels": {"team": "ml"}}}
    assert (await send(api, "PATCH", "/api/v1/namespaces/ml", own_label, by=BOSS, content_type=MERGE)).code == 200


STATUSES = {
    "/apis/batch/v1/namespaces/ml/jobs/parent": {"succeeded": 1},
    "/api/v1/namespaces/ml/pods/in-queue": {"phase": "Succeeded"},
    "/api/v1/namespaces/ml/pods/of-job": {"phase": "Succeeded"},
    "/apis/kueue.x-k8s.io/v1beta2/namespaces/ml/workloads/waiting": {
        "admission": {"clusterQueue": "a", "podSetAssignments": [{"name": "main", "resourceUsage": {"cpu": "0"}}]}
    },
    "/apis/kueue.x-k8s.io/v1beta1/namespaces/ml/workloads/waiting": {"reclaimablePods": [{"name": "main", "count": 1}]},
}
"""What would give quota back, or take none, by the path of the object."""


@pytest.fixture
async def used_quota(api, parent):
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": parent, "controller": True}
    for name, details in (
        ("in-queue", {"labels": {QUEUE: "main"}}),
        ("of-job", {"ownerReferences": [owner]}),
        ("alone", {}),
    ):
        metadata = {"name": name, "namespace": "ml", **details}
        await create(api, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": spec}}]
    workload = {"metadata": {"name": "waiting", "namespace": "ml"}, "spec": {"queueName": "main", "podSets": pod_sets}}
    await create(api, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **workload})


@pytest.mark.usefixtures("used_quota")
@pytest.mark.parametrize("path", STATUSES)
async def test_all_rights_in_a_namespace_do_not_write_what_quota_depends_on(api, path):
    await create(api, binding("everything", "boss", namespace="ml"))
    body = {"status": STATUSES[path]}
    answer = await send(api, "PATCH", f"{path}/status", body, by=BOSS, content_type=MERGE)
    assert (answer.code, "quota depends on it" in answer.message) == (422, True)
    await create(api, binding("everything", "boss", namespace=""))
    assert (await send(api, "PATCH", f"{path}/status", body, by=BOSS, content_type=MERGE)).code == 200


@pytest.mark.usefixtures("used_quota")
async def test_the_status_of_a_pod_without_quota_is_its_owners(api):
    await create(api, binding("everything", "boss", namespace="ml"))
    path = "/api/v1/namespaces/ml/pods/alone/status"
    answer = await send(api, "PATCH", path, {"status": {"phase": "Failed"}}, by=BOSS, content_type=MERGE)
    assert answer.code == 200
