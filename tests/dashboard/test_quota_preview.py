"""The preview of a new quota on the page: who may see it, and what it says."""

import pytest

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.app import previews
from pykueue.dashboard import quota_preview


def cluster_queue(cpus):
    quota = {"name": "cpus", "resources": [{"name": "cpu", "nominalQuota": str(cpus)}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "team"}, "spec": spec}


async def create_waiting(api):
    client = api.client()
    await client.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "cpus"}, "spec": {}})
    await client.create(resources.CLUSTER_QUEUE, cluster_queue(1))
    queue = {"metadata": {"name": "main"}, "spec": {"clusterQueue": "team"}}
    await client.create(resources.LOCAL_QUEUE, queue, "default")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "main", "podSets": [{"name": "main", "count": 1, "template": template}]}
    await client.create(resources.WORKLOAD, {"metadata": {"name": "large"}, "spec": spec}, "default")


async def asked(api, token, body):
    user = api.authenticate(token)

    async def may_access(access):
        return api.authorizer.allows(user, access)

    async def preview(obj):
        return await previews.preview_for_page(api.client(), obj)

    return await quota_preview.answer(body, preview, may_access, user.name)


async def test_more_quota_admits_a_waiting_workload(api):
    await create_waiting(api)
    answer = await asked(api, api.access.token, cluster_queue(4))
    assert answer["lines"] == ["In the next 1h this change would", "  admit default/large after 0s with cpus"]
    stored = await api.client().get(resources.CLUSTER_QUEUE, "team", "")
    assert stored["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "1"


async def test_a_user_who_may_not_change_queues_gets_no_preview(api, token_of):
    await create_waiting(api)
    with pytest.raises(ApiError, match="forbidden"):
        await asked(api, token_of("alice"), cluster_queue(4))


@pytest.mark.parametrize("body", [{"kind": "Secret"}, [], {**cluster_queue(4), "spec": {"resourceGroups": 3}}])
async def test_a_wrong_body_is_refused(api, body):
    with pytest.raises(ApiError) as refusal:
        await asked(api, api.access.token, body)
    assert refusal.value.code == 400


async def test_a_cluster_with_too_many_workloads_is_not_forked(api, monkeypatch):
    await create_waiting(api)
    monkeypatch.setattr(previews, "MOST_WORKLOADS", 0)
    with pytest.raises(ApiError, match="1 unfinished Workloads"):
        await asked(api, api.access.token, cluster_queue(4))
