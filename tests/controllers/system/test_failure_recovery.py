"""With the gate FailureRecoveryPolicy, a pod that an unreachable node keeps is deleted."""

from tests.controllers.system.cluster import CONFIGURATION, running_cluster

from pykueue.api import resources
from pykueue.kube.client import DeleteOptions

ALLOWED = {"kueue.x-k8s.io/safe-to-forcefully-delete": "true"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


async def test_a_pod_on_an_unreachable_node_is_deleted(monkeypatch):
    monkeypatch.setattr("pykueue.controllers.failure_recovery.decide.GRACE_SECONDS", 0)
    async with running_cluster({**CONFIGURATION, "featureGates": {"FailureRecoveryPolicy": True}}) as cluster:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
        await cluster.create(resources.NODE, node)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "annotations": ALLOWED, "finalizers": ["example.com/kept"]},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        }
        await cluster.create(resources.POD, pod, "default")
        await cluster.client.delete(resources.POD, "p", "default", DeleteOptions(grace_period_seconds=0))

        async def has_failed():
            return (await cluster.get(resources.POD, "p", "default"))["status"].get("phase") == "Failed"

        assert not await has_failed()
        await cluster.merge(resources.NODE, "n", {"spec": {"taints": [UNREACHABLE]}})
        await cluster.until(has_failed)
