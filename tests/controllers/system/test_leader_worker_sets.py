"""Groups of leaders and workers, on the API in memory; the test makes the pods that their operator
would make.
"""

import pytest
from tests.controllers.system.cluster import running_cluster

from pykueue.api import resources
from pykueue.controllers.leader_worker_sets import decide as groups

SETS = resources.LEADER_WORKER_SET
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}


@pytest.fixture
async def cluster():
    configuration = {"integrations": {"frameworks": [groups.NAME]}}
    async with running_cluster(configuration) as cluster:
        yield cluster


async def create_set(cluster, replicas):
    template = {"spec": {"containers": [CONTAINER]}}
    leader_worker_set = {
        "apiVersion": SETS.api_version,
        "kind": SETS.kind,
        "metadata": {"name": "llm", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "cq"}},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": 2, "leaderTemplate": template, "workerTemplate": template},
        },
    }
    created = await cluster.create(SETS, leader_worker_set, "default")
    for group in range(replicas):
        await _pod(cluster, created, f"llm-{group}", group, "leaderTemplate")
        await _pod(cluster, created, f"llm-{group}-1", group, "workerTemplate")
    return created


async def _pod(cluster, leader_worker_set, name, group, part):
    template = leader_worker_set["spec"]["leaderWorkerTemplate"][part]["metadata"]
    labels = template["labels"] | {groups.SET_NAME_LABEL: "llm", groups.GROUP_INDEX_LABEL: str(group)}
    leader = {groups.LEADER_NAME_ANNOTATION: f"llm-{group}"} if part == "workerTemplate" else {}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": template["annotations"] | leader},
        "spec": {"containers": [CONTAINER]},
    }
    await cluster.create(resources.POD, pod, "default")


async def released(cluster):
    pods = (await cluster.client.list(resources.POD, "default")).items
    return sorted(pod["metadata"]["name"] for pod in pods if not pod["spec"].get("schedulingGates"))


async def workload(cluster, leader_worker_set, index):
    return await cluster.get(resources.WORKLOAD, groups.workload_name(leader_worker_set, index), "default")


async def test_a_group_runs_as_a_whole_and_the_next_waits_for_quota(cluster):
    await cluster.make_queue(cpu="3")
    await create_set(cluster, replicas=2)

    async def two_run():
        names = await released(cluster)
        return names if len(names) == 2 else None

    names = await cluster.until(two_run)
    assert names[1] == f"{names[0]}-1"


async def test_scaling_down_gives_quota_back(cluster):
    await cluster.make_queue(cpu="4")
    leader_worker_set = await create_set(cluster, replicas=2)

    async def all_run():
        return len(await released(cluster)) == 4

    await cluster.until(all_run)
    await cluster.merge(SETS, "llm", {"spec": {"replicas": 1}}, namespace="default")

    async def is_last_gone():
        return await workload(cluster, leader_worker_set, 1) is None

    await cluster.until(is_last_gone)
    assert await workload(cluster, leader_worker_set, 0) is not None
