"""A local cluster on an embedded API, and waiting for states of its objects."""

import asyncio

from pykueue.api import resources

CONTAINER = {"name": "main", "image": "busybox", "command": ["sh", "-c", "true"]}


def job(name="train", *, pod=None, **spec):
    pod_spec = {"restartPolicy": "Never", "containers": [CONTAINER]} | (pod or {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": pod_spec}} | spec,
    }


class ClusterFixture:
    def __init__(self, client, cluster):
        self.client = client
        self.cluster = cluster

    async def create(self, resource, obj):
        return await self.client.create(resource, obj, obj["metadata"].get("namespace", ""))

    async def pods(self):
        return (await self.client.list(resources.POD, "default")).items

    async def until(self, resource, name, holds, namespace="default"):
        """The object, as soon as it makes `holds` true."""
        async with asyncio.timeout(30):
            async for event in self.client.watch(resource, namespace):
                if (
                    event.type in ("ADDED", "MODIFIED")
                    and event.object["metadata"]["name"] == name
                    and holds(event.object)
                ):
                    return event.object
        raise AssertionError

    async def until_gone(self, resource, name, namespace="default"):
        async with asyncio.timeout(30):
            while True:
                listed = await self.client.list(resource, namespace)
                if name not in [obj["metadata"]["name"] for obj in listed.items]:
                    return
                await asyncio.sleep(0.02)

    async def play_kubelet(self, pod, phase, exit_code=0):
        status = {
            "phase": phase,
            "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": exit_code}}}],
        }
        name = pod["metadata"]["name"]
        await self.client.patch(resources.POD, name, "default", {"status": status}, subresource="status")


def has_condition(type_):
    def holds(obj):
        return any(
            condition["type"] == type_ and condition["status"] == "True"
            for condition in obj.get("status", {}).get("conditions") or ()
        )

    return holds
