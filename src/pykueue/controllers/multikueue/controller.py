"""Dispatches Workloads: reads a Workload and its copies, and applies what `decide` plans.

It also deletes, every `gcInterval`, copies whose Workload does not exist any more.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from pykueue.api import objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.labels import WORKLOAD_SLICE_REPLACEMENT_FOR
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.controllers.cache import split_key
from pykueue.controllers.leader_worker_sets import decide as leader_worker_sets
from pykueue.controllers.multikueue import adapters, checks, decide
from pykueue.controllers.multikueue.adapters import Adapter, AdapterTable, JobOwner
from pykueue.controllers.multikueue.clusters import ClusterController
from pykueue.controllers.multikueue.context import MANAGER, DispatchPolicy, GroupContext, GroupPlan
from pykueue.controllers.multikueue.remote import RemoteCluster
from pykueue.controllers.workloads import predicates
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import Action, Create, Update

log = logging.getLogger(__name__)

BATCH_NS = SECOND_NS // 10
"""Changes on workers within this time are reconciled together."""
NO_ADAPTER = "No multikueue adapter found"

Count = Callable[[str, str], None]
"""Called with the ClusterQueue and the cluster."""


class DispatchController:
    def __init__(
        self,
        client: Client,
        cache: ObjectCache,
        executor: WriteExecutor,
        *,
        clock: Clock,
        clusters: ClusterController,
        table: AdapterTable,
        policy: DispatchPolicy,
        on_dispatched: Count = lambda _queue, _cluster: None,
        on_admitted: Count = lambda _queue, _cluster: None,
    ) -> None:
        self._client = client
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._clusters = clusters
        self._table = table
        self._policy = policy
        self._on_dispatched = on_dispatched
        self._on_admitted = on_admitted
        self.queue: WorkQueue[Key] = WorkQueue("multikueue-workload", clock)
        self._deleted: dict[Key, Object] = {}
        """Deleted Workloads whose copies are still to be deleted."""
        clusters.on_connection_change = self._connection_changed
        cache.add_index(resources.WORKLOAD, "ownerUid", _owner_uids)
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        cache.on_change(resources.ADMISSION_CHECK, self._parameters_changed)
        cache.on_change(resources.MULTI_KUEUE_CONFIG, self._parameters_changed)
        for adapter in table:
            cache.on_change(adapter.resource, self._job_changed)

    # What to reconcile

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        workload = latest(old, new)
        if not predicates.checks(workload):
            return
        if new is None:
            self._deleted[key_of(workload)] = workload
        self.queue.add(key_of(workload))
        if _cluster_name(old) != _cluster_name(new):
            for member in self._components(workload):
                self.queue.add(key_of(member))

    def _job_changed(self, old: Object | None, new: Object | None) -> None:
        """A job of the manager appeared, was resumed, or changed its spec."""
        if new is None or (old is not None and _generation(old) == _generation(new)):
            return
        for workload in self._cache.indexed(resources.WORKLOAD, "ownerUid", objects.uid(new)):
            self.queue.add_unless_due(key_of(workload), BATCH_NS)

    def _parameters_changed(self, _old: Object | None, _new: Object | None) -> None:
        self._add_unfinished()

    def _connection_changed(self, cluster: str) -> None:
        """A finished Workload is concerned only if the cluster has a copy of it."""
        remote = self._clusters.remotes.get(cluster)
        copies = () if remote is None else map(key_of, remote.cache.all(resources.WORKLOAD))
        self._add_unfinished()
        for namespace, name in copies:
            if self._cache.get(resources.WORKLOAD, name, namespace) is not None:
                self.queue.add((namespace, name))

    def _add_unfinished(self) -> None:
        for workload in self._cache.all(resources.WORKLOAD):
            if predicates.checks(workload) and not predicates.is_finished(workload):
                self.queue.add(key_of(workload))
        for key in self._deleted:
            self.queue.add(key)

    def remote_changed(self, key: Key) -> None:
        """A copy of this Workload, or of its job, changed on a worker."""
        namespace, name = key
        if key in self._deleted or self._cache.get(resources.WORKLOAD, name, namespace) is not None:
            self.queue.add_unless_due(key, BATCH_NS)

    # Reconciling

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        workload = self._cache.get(resources.WORKLOAD, name, namespace)
        if workload is not None:
            self._deleted.pop(key, None)
        current = workload or self._deleted.get(key)
        if current is None:
            return 0
        state = checks.state_of(self._cache, current)
        if state is None:
            self._deleted.pop(key, None)
            return 0
        if workload is None or objects.is_deleted(workload) or state["state"] == "Rejected":
            await self._delete_copies(key)
            self._deleted.pop(key, None)
            return 0
        owner = self._table.owner_of(workload)
        if owner.adapter is None:
            return await self._without_adapter(workload, state, owner)
        jobs = await self._jobs(owner, owner.adapter, workload)
        if not predicates.is_finished(workload):
            await self._read_results(owner.adapter, workload, jobs)
        return await self._reconcile_group(self._context(workload, state, owner.adapter, jobs), jobs)

    async def _read_results(self, adapter: Adapter, workload: Object, jobs: list[Object]) -> None:
        """Read the jobs of a worker on which the Workload is finished."""
        for remote in list(self._clusters.remotes.values()):
            copy = remote.workload(key_of(workload)) if remote.is_connected else None
            if copy is not None and predicates.is_finished(copy):
                await remote.read_jobs(adapter, jobs)

    async def _delete_copies(self, key: Key) -> None:
        """Delete the copies on all connected clusters; others wait for the garbage collection."""
        remotes = [remote for remote in self._clusters.remotes.values() if remote.is_connected]
        results = await asyncio.gather(
            *(remote.apply(decide.deletion(remote.state(key))) for remote in remotes), return_exceptions=True
        )
        _raise_first(results)

    async def _without_adapter(self, workload: Object, state: Object, owner: JobOwner) -> int:
        if predicates.is_finished(workload) or not predicates.has_quota_reservation(workload):
            await self._delete_copies(key_of(workload))
            return 0
        return await self._reject(workload, state, owner)

    async def _reject(self, workload: Object, state: Object, owner: JobOwner) -> int:
        message = f'{NO_ADAPTER} for owner kind "{owner.kind}"' if owner.kind else NO_ADAPTER
        adapter = next(iter(self._table))
        context = GroupContext(workload=workload, check=state, adapter=adapter, remotes={}, now_ns=self._clock.now_ns())
        await self._apply(context, decide.answer(context, "Rejected", message))
        return 0

    async def _reconcile_group(self, context: GroupContext, jobs: list[Object]) -> int:
        """A Workload whose job is not there yet, or no more, waits."""
        workload = context.workload
        if not jobs and predicates.has_quota_reservation(workload) and not predicates.is_finished(workload):
            return 0
        for job in jobs:
            reason = adapters.unmanaged_reason(context.adapter, job)
            if reason:
                message = f"The owner is not managed by Kueue: {reason}"
                await self._apply(context, decide.answer(context, "Rejected", message))
                return 0
        plan = decide.plan(context)
        await self._apply(context, plan)
        return plan.requeue_after_ns

    # Reading

    async def _jobs(self, owner: JobOwner, adapter: Adapter, workload: Object) -> list[Object]:
        """The job of a Workload; of a pod group all its pods."""
        namespace = objects.namespace(workload)
        if adapter.resource != resources.POD:
            job = await self._job(adapter.resource, owner.name, namespace)
            is_owner = job is not None and _owns(adapter, job, workload, self._policy)
            return [job] if job is not None and is_owner else []
        uids = _owner_uids(workload)
        references = objects.owner_references(workload)
        pods = (self._cache.get(resources.POD, str(reference["name"]), namespace) for reference in references)
        return [pod for pod in pods if pod is not None and objects.uid(pod) in uids]

    async def _job(self, resource: Resource, name: str, namespace: str) -> Object | None:
        if self._cache.is_listed(resource):
            return self._cache.get(resource, name, namespace)
        try:
            return await self._client.get(resource, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def _context(self, workload: Object, state: Object, adapter: Adapter, jobs: list[Object]) -> GroupContext:
        names = checks.clusters_of(self._cache, state["name"])
        remotes = {name: self._clusters.remotes.get(name) for name in names}
        connected = {name: remote for name, remote in remotes.items() if remote is not None and remote.is_connected}
        now_ns = self._clock.now_ns()
        components = self._components(workload) if adapter.has_several_workloads else []
        return GroupContext(
            workload=workload,
            check=state,
            adapter=adapter,
            remotes={name: remote.state(key_of(workload), adapter, jobs) for name, remote in connected.items()},
            jobs=tuple(jobs),
            unavailable={name: self._clusters.lost_since_ns(name) for name in names if name not in connected},
            components=tuple(components),
            expected_components=leader_worker_sets.replicas(jobs[0]) if components and jobs else 1,
            replaced=self._replaced(workload),
            policy=self._policy,
            now_ns=now_ns,
        )

    def _replaced(self, workload: Object) -> Object | None:
        namespace, name = split_key(objects.annotations(workload).get(WORKLOAD_SLICE_REPLACEMENT_FOR, ""))
        return self._cache.get(resources.WORKLOAD, name, namespace)

    def _components(self, workload: Object) -> list[Object]:
        """The other Workloads of the same owners."""
        members = {
            key_of(member): member
            for uid in _owner_uids(workload)
            for member in self._cache.indexed(resources.WORKLOAD, "ownerUid", uid)
        }
        members.pop(key_of(workload), None)
        return list(members.values())

    # Writing

    async def _apply(self, context: GroupContext, plan: GroupPlan) -> None:
        for stage in plan.stages:
            targets: dict[str, list[Action]] = {}
            for cluster, action in stage:
                targets.setdefault(cluster, []).append(action)
            writes = (self._write(context, cluster, actions) for cluster, actions in targets.items())
            _raise_first(await asyncio.gather(*writes, return_exceptions=True))

    async def _write(self, context: GroupContext, cluster: str, actions: list[Action]) -> None:
        queue = predicates.cluster_queue_reserved(context.workload)
        if cluster == MANAGER:
            await self._executor.apply(actions)
            for action in actions:
                if admitting := _newly_admitting(action, context):
                    self._on_admitted(queue, admitting)
            return
        remote = self._clusters.remotes.get(cluster)
        if remote is None:
            raise ApiError(503, "ServiceUnavailable", f"cluster {cluster} is not connected")
        await remote.apply(actions)
        if any(isinstance(action, Create) and action.resource == resources.WORKLOAD for action in actions):
            self._on_dispatched(queue, cluster)

    # Collecting garbage

    async def collect_garbage(self, interval_ns: int) -> None:
        """Delete, again and again, copies whose Workload does not exist any more."""
        if interval_ns <= 0:
            await asyncio.Event().wait()
        while True:
            await self._clock.sleep(interval_ns / SECOND_NS)
            for remote in list(self._clusters.remotes.values()):
                if remote.is_connected:
                    await self._collect(remote)

    async def _collect(self, remote: RemoteCluster) -> None:
        for copy in remote.cache.all(resources.WORKLOAD):
            namespace, name = key = key_of(copy)
            local = self._cache.get(resources.WORKLOAD, name, namespace)
            if (local is not None and not objects.is_deleted(local)) or await self._exists(key):
                continue
            try:
                await remote.apply(decide.deletion(remote.state(key)))
            except ApiError as error:
                log.warning("garbage of cluster %s: %s", remote.name, error.message)

    async def _exists(self, key: Key) -> bool:
        """Whether the API has the Workload: the cache may be behind the worker's."""
        namespace, name = key
        try:
            return not objects.is_deleted(await self._client.get(resources.WORKLOAD, name, namespace))
        except ApiError as error:
            return error.code != 404
        except OSError:
            return True


def _raise_first(results: Iterable[BaseException | None]) -> None:
    for result in results:
        if result is not None:
            raise result


def _owns(adapter: Adapter, job: Object, workload: Object, policy: DispatchPolicy) -> bool:
    """Whether the Workload is one of the job's: its annotations alone are not believed."""
    if adapter.has_several_workloads:
        return objects.name(workload) in adapters.workload_names(adapter, job, policy.jobs)
    return objects.uid(job) in _owner_uids(workload)


def _owner_uids(workload: Object) -> list[str]:
    return [str(reference.get("uid", "")) for reference in objects.owner_references(workload)]


def _cluster_name(workload: Object | None) -> str:
    return str(objects.status(workload or {}).get("clusterName") or "")


def _generation(job: Object) -> int:
    return int(job["metadata"].get("generation", 0))


def _newly_admitting(action: Action, context: GroupContext) -> str:
    """The cluster that a write records as the one that admitted the Workload."""
    if not isinstance(action, Update) or action.resource != resources.WORKLOAD or _cluster_name(context.workload):
        return ""
    return _cluster_name(action.new)
