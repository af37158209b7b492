"""StatefulSets on the API in memory, with a pod made by hand."""

from tests.controllers.system.cluster import running_cluster
from tests.controllers.system.test_pods import is_gated, pod
from tests.controllers.system.test_requeue import workload

from pykueue.api import resources

CONFIGURATION = {"integrations": {"frameworks": ["pod", "statefulset"]}}
QUEUE = "kueue.x-k8s.io/queue-name"
GROUP = "kueue.x-k8s.io/pod-group-name"


def stateful_set(name, queue):
    labels = {"app": name}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {QUEUE: queue}},
        "spec": {"serviceName": name, "selector": {"matchLabels": labels}, "template": template},
    }


def member(owner):
    metadata = owner["metadata"]
    obj = pod(f"{metadata['name']}-0", annotations={"kueue.x-k8s.io/pod-suspending-parent": "statefulset"})
    del obj["metadata"]["labels"][QUEUE]
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": metadata["name"], "uid": metadata["uid"]}
    obj["metadata"]["ownerReferences"] = [reference | {"controller": True}]
    obj["spec"]["restartPolicy"] = "Always"
    return obj


async def test_pods_get_the_queue_to_which_their_stateful_set_moves():
    async with running_cluster(CONFIGURATION) as cluster:
        await cluster.make_queue()
        created = await cluster.create(resources.STATEFUL_SET, stateful_set("db", "nowhere"), "default")
        await cluster.create(resources.POD, member(created), "default")

        async def queue_is(name):
            obj = await cluster.get(resources.POD, "db-0", "default")
            return GROUP in obj["metadata"]["labels"] and obj["metadata"]["labels"].get(QUEUE) == name

        await cluster.until(queue_is, "nowhere")
        patch = {"metadata": {"labels": {QUEUE: "cq"}}}
        await cluster.merge(resources.STATEFUL_SET, "db", patch, namespace="default")
        await cluster.until(queue_is, "cq")

        async def is_started():
            return not is_gated(await cluster.get(resources.POD, "db-0", "default"))

        await cluster.until(is_started)


async def test_a_workload_with_the_name_that_an_older_kueue_gave_is_kept():
    async with running_cluster(CONFIGURATION) as cluster:
        await cluster.make_queue()
        former = workload("statefulset-db-ae577")
        former["metadata"]["annotations"] = {"kueue.x-k8s.io/is-group-workload": "true"}
        await cluster.create(resources.WORKLOAD, former, "default")
        created = await cluster.create(resources.STATEFUL_SET, stateful_set("db", "cq"), "default")
        await cluster.create(resources.POD, member(created), "default")

        async def is_member():
            obj = await cluster.get(resources.POD, "db-0", "default")
            return obj["metadata"]["labels"].get(GROUP)

        assert await cluster.until(is_member) == "statefulset-db-ae577"

        async def is_owned():
            owners = (await cluster.get(resources.WORKLOAD, "statefulset-db-ae577", "default"))["metadata"]
            return created["metadata"]["uid"] in [owner["uid"] for owner in owners.get("ownerReferences") or ()]

        await cluster.until(is_owned)
        assert len((await cluster.client.list(resources.WORKLOAD, "default")).items) == 1
