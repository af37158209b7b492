"""A random administrator: creates queues, flavors, priority classes and namespaces, changes them,
and deletes them at any time. Somebody creates them again later, as soon as their names are free.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from pykueue.api import conditions, objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import from_ns
from pykueue.cluster.operators import training_runtimes
from pykueue.simulate import check_controller
from pykueue.simulate.job_manifests import PRIORITIES, TOPOLOGY_QUEUE, TRAINING_RUNTIMES
from pykueue.simulate.profile import HOSTNAME, POOL, RACK
from pykueue.simulate.system import System

NAMESPACE = "default"
TEAM = "team"
"""A namespace that is deleted now and then."""
NAMESPACES = (NAMESPACE, TEAM)
COHORT = "shared"
FLAVORS = ("on-demand", "spot")
TWO_FLAVORS = "solo"
"""The queue with two flavors; it is in no cohort."""

CONCURRENT_QUEUES = ("alpha", TWO_FLAVORS)
"""The queues with concurrent admission: one in a cohort, and one alone."""
_MIGRATION: Object = {"migration": {"mode": "TryPreferredFlavors"}}

Action = Callable[[], Awaitable[None]]


class RandomAdministrator:
    def __init__(self, system: System) -> None:
        self._system = system
        self._random = system.stream("administrator")
        topology = (TOPOLOGY_QUEUE,) if system.profile.topology else ()
        self.queues: tuple[str, ...] = ("alpha", "beta", "gamma", TWO_FLAVORS, *topology)
        self.actions: list[tuple[int, Action]] = [
            (6, self.change_quota),
            (4, self.stop_queue),
            (4, self.stop_local_queue),
            (2, self.delete_local_queue),
            (2, self.delete_cluster_queue),
            (1, self.delete_flavor),
            (1, self.delete_namespace),
            (1, self.change_priority_class),
            (2, self.change_limits),
            (6, self.create_missing),
            (2, self.delete_node),
        ]
        if system.profile.topology:
            self.actions.append((3, self.toggle_node))
        if system.profile.checks:
            self.actions.append((2, self.change_checks))
        if system.profile.fair_sharing:
            self.actions.append((2, self.change_weight))

    async def set_up(self) -> None:
        for resource, obj in self._everything():
            await self._system.client.create(resource, obj, objects.namespace(obj))

    async def create_missing(self) -> None:
        """Create what was deleted and is gone; a name that is not free yet is tried another
        time.
        """
        for resource, obj in self._everything():
            await self._create_if_missing(resource, obj)

    async def _create_if_missing(self, resource: Resource, obj: Object) -> None:
        try:
            await self._system.client.create(resource, obj, objects.namespace(obj))
        except ApiError as error:
            if error.code not in (403, 404, 409):  # 403: the namespace is being deleted
                raise

    async def restore(self) -> None:
        """At the end: no queue is stopped, missing or without nodes, so that nothing is left
        waiting.
        """
        client = self._system.client
        for _ in range(3):
            await self.create_missing()
            await asyncio.sleep(5)
        for name in self.queues:
            patch = {"spec": {"stopPolicy": "None"}}
            await client.patch(resources.CLUSTER_QUEUE, name, "", patch)
            for namespace in NAMESPACES:
                await client.patch(resources.LOCAL_QUEUE, name, namespace, patch)
        for node in (await client.list(resources.NODE)).items:
            await self._set_ready(node, is_ready=True)
        for limits in (await client.list(resources.LIMIT_RANGE)).items:
            await client.delete(resources.LIMIT_RANGE, objects.name(limits), objects.namespace(limits))

    def _everything(self) -> Iterator[tuple[Resource, Object]]:
        profile = self._system.profile
        namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}
        yield resources.NAMESPACE, namespace
        for runtime in TRAINING_RUNTIMES:
            yield resources.CLUSTER_TRAINING_RUNTIME, training_runtimes.runtime(runtime)
        yield resources.COHORT, _kueue("Cohort", COHORT, fairSharing={"weight": "1"})
        if profile.topology:
            levels = [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]
            yield resources.TOPOLOGY, _kueue("Topology", "racks", levels=levels)
            flavor = _kueue("ResourceFlavor", TOPOLOGY_QUEUE, nodeLabels={POOL: "topology"}, topologyName="racks")
            yield resources.RESOURCE_FLAVOR, flavor
        if profile.checks:
            name, controller = check_controller.NAME, check_controller.CONTROLLER
            yield resources.ADMISSION_CHECK, _kueue("AdmissionCheck", name, controllerName=controller)
        for name in FLAVORS:
            yield resources.RESOURCE_FLAVOR, _kueue("ResourceFlavor", name)
        for name, value in PRIORITIES.items():
            yield resources.WORKLOAD_PRIORITY_CLASS, _kueue("WorkloadPriorityClass", name) | {"value": value}
        for name in self.queues:
            yield resources.CLUSTER_QUEUE, self._cluster_queue(name)
            for namespace_name in NAMESPACES:
                queue = _kueue("LocalQueue", name, clusterQueue=name)
                queue["metadata"]["namespace"] = namespace_name
                yield resources.LOCAL_QUEUE, queue

    # ClusterQueues

    def _cluster_queue(self, name: str) -> Object:
        draw = self._random
        is_concurrent = name in CONCURRENT_QUEUES and self._system.profile.concurrent_admission
        flavors = {TWO_FLAVORS: FLAVORS, TOPOLOGY_QUEUE: (TOPOLOGY_QUEUE,)}.get(name, FLAVORS[: 1 + is_concurrent])
        is_shared = name not in (TWO_FLAVORS, TOPOLOGY_QUEUE)
        spec: Object = {
            "namespaceSelector": {},
            "queueingStrategy": draw.choice(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
            "preemption": {
                "withinClusterQueue": draw.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
                "reclaimWithinCohort": draw.choice(("Never", "Any", "LowerPriority")),
            },
            "resourceGroups": [
                {"coveredResources": ["cpu"], "flavors": [self._quota(flavor, is_shared) for flavor in flavors]}
            ],
        }
        if is_shared:
            spec["cohortName"] = COHORT
        if is_concurrent:
            spec |= {"queueingStrategy": "BestEffortFIFO", "concurrentAdmissionPolicy": _MIGRATION}
        if self._system.profile.checks and draw.random() < 0.4:
            spec["admissionChecksStrategy"] = _checks(on=True)
        if self._system.profile.fair_sharing:
            spec["fairSharing"] = {"weight": draw.choice(("1", "2", "500m"))}
        return _kueue("ClusterQueue", name, **spec)

    def _quota(self, flavor: str, is_shared: bool) -> Object:  # noqa: FBT001 - a property of the queue
        low, high = (6, 12) if flavor == TOPOLOGY_QUEUE else (2, 5)
        quota = {"name": "cpu", "nominalQuota": str(self._random.randint(low, high))}
        if is_shared and self._random.random() < 0.2:
            quota["borrowingLimit"] = str(self._random.randint(0, 4))
        if is_shared and self._random.random() < 0.2:
            quota["lendingLimit"] = str(self._random.randint(0, int(quota["nominalQuota"])))
        return {"name": flavor, "resources": [quota]}

    async def change_quota(self) -> None:
        queue = await self._system.client.get(resources.CLUSTER_QUEUE, self._random.choice(self.queues))
        group = queue["spec"]["resourceGroups"][0]
        is_shared = "cohortName" in queue["spec"]
        flavors = [self._quota(flavor["name"], is_shared) for flavor in group["flavors"]]
        await self._patch_queue(queue, {"resourceGroups": [group | {"flavors": flavors}]})

    async def change_checks(self) -> None:
        queue = await self._system.client.get(resources.CLUSTER_QUEUE, self._random.choice(self.queues))
        await self._patch_queue(queue, {"admissionChecksStrategy": _checks(on=self._random.random() < 0.5)})

    async def change_weight(self) -> None:
        queue = await self._system.client.get(resources.CLUSTER_QUEUE, self._random.choice(self.queues))
        await self._patch_queue(queue, {"fairSharing": {"weight": self._random.choice(("0", "1", "3"))}})

    async def _patch_queue(self, queue: Object, spec: Object) -> None:
        await self._system.client.patch(resources.CLUSTER_QUEUE, objects.name(queue), "", {"spec": spec})

    async def stop_queue(self) -> None:
        patch = {"spec": {"stopPolicy": self._random.choice(("None", "None", "Hold", "HoldAndDrain"))}}
        await self._system.client.patch(resources.CLUSTER_QUEUE, self._random.choice(self.queues), "", patch)

    async def stop_local_queue(self) -> None:
        patch = {"spec": {"stopPolicy": self._random.choice(("None", "None", "Hold", "HoldAndDrain"))}}
        name, namespace = self._random.choice(self.queues), self._random.choice(NAMESPACES)
        await self._system.client.patch(resources.LOCAL_QUEUE, name, namespace, patch)

    async def change_limits(self) -> None:
        """A LimitRange of a namespace comes, goes or changes: what it refuses may not start."""
        namespace, client = self._random.choice(NAMESPACES), self._system.client
        most = self._random.choice((None, "1", "2", "8"))
        existing = (await client.list(resources.LIMIT_RANGE, namespace)).items
        spec = {"limits": [{"type": "Container", "max": {"cpu": most}}]}
        if most is None:
            for limits in existing:
                await client.delete(resources.LIMIT_RANGE, objects.name(limits), namespace)
        elif existing:
            await client.patch(resources.LIMIT_RANGE, "limits", namespace, {"spec": spec})
        else:
            limits = {"metadata": {"name": "limits", "namespace": namespace}, "spec": spec}
            await client.create(resources.LIMIT_RANGE, limits, namespace)

    # Deletions

    async def delete_local_queue(self) -> None:
        name, namespace = self._random.choice(self.queues), self._random.choice(NAMESPACES)
        await self._system.client.delete(resources.LOCAL_QUEUE, name, namespace)

    async def delete_cluster_queue(self) -> None:
        """It stays until nothing holds its quota any more."""
        await self._system.client.delete(resources.CLUSTER_QUEUE, self._random.choice(self.queues))

    async def delete_flavor(self) -> None:
        """It stays until no ClusterQueue refers to it any more."""
        await self._system.client.delete(resources.RESOURCE_FLAVOR, self._random.choice(FLAVORS))

    async def delete_namespace(self) -> None:
        await self._system.client.delete(resources.NAMESPACE, TEAM)

    # Priorities and nodes

    async def change_priority_class(self) -> None:
        name = self._random.choice(list(PRIORITIES))
        patch = {"value": self._random.choice((5, 50, 500, 5000))}
        await self._system.client.patch(resources.WORKLOAD_PRIORITY_CLASS, name, "", patch)

    async def delete_node(self) -> None:
        """Nodes come back when the cluster's process starts again."""
        nodes = (await self._system.client.list(resources.NODE)).items
        if len(nodes) > 1:
            await self._system.client.delete(resources.NODE, objects.name(self._random.choice(nodes)))

    async def toggle_node(self) -> None:
        nodes = (await self._system.client.list(resources.NODE)).items
        if nodes:
            node = self._random.choice(nodes)
            await self._set_ready(node, is_ready=not conditions.is_true(node, "Ready"))

    async def _set_ready(self, node: Object, *, is_ready: bool) -> None:
        if conditions.is_true(node, "Ready") == is_ready:
            return
        ready: Object = {"type": "Ready", "status": "True" if is_ready else "False", "reason": "Kubelet"}
        ready |= {"message": "drawn", "lastTransitionTime": from_ns(self._system.clock.now_ns())}
        patch = {"status": {"conditions": [ready]}}
        await self._system.client.patch(resources.NODE, objects.name(node), "", patch, subresource="status")


def _checks(*, on: bool) -> Object | None:
    return {"admissionChecks": [{"name": check_controller.NAME}]} if on else None


def _kueue(kind: str, name: str, **spec: object) -> Object:
    obj: Object = {
        "apiVersion": f"{resources.KUEUE_GROUP}/{resources.KUEUE_VERSION}",
        "kind": kind,
        "metadata": {"name": name},
    }
    return obj | ({"spec": spec} if spec else {})
