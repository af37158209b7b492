"""The controllers of MultiKueue together, as `controllers.system` runs them."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykueue.api import resources
from pykueue.api.scheme import Resource
from pykueue.api.times import SECOND_NS
from pykueue.controllers.multikueue.adapters import Adapter, AdapterTable
from pykueue.controllers.multikueue.checks import DispatchCheckController
from pykueue.controllers.multikueue.clusters import ClusterController
from pykueue.controllers.multikueue.context import DispatchPolicy
from pykueue.controllers.multikueue.controller import Count, DispatchController
from pykueue.controllers.multikueue.dispatch import IncrementalDispatcher
from pykueue.controllers.multikueue.quotas import QuotaController
from pykueue.controllers.multikueue.remote import Connect, RemoteCluster, connect_http
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.event_recorder import EventRecorder
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import Reconcile, WorkQueue

COMPONENT = "kueue-workload-controller"
RESOURCES = (resources.MULTI_KUEUE_CLUSTER, resources.MULTI_KUEUE_CONFIG)


class DispatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the Configuration says of MultiKueue."""

    policy: DispatchPolicy = msgspec.field(default_factory=DispatchPolicy)
    adapters: tuple[Adapter, ...] = ()
    namespace: str = ""
    """Where the Secrets with kubeconfigs are."""
    gc_interval_ns: int = 60 * SECOND_NS
    is_incremental: bool = False
    automates_quotas: bool = False
    checks_paths: bool = False
    uses_profiles: bool = False
    access_providers: Sequence[Mapping[str, Any]] = ()


class MultiKueueControllers:
    def __init__(
        self,
        client: Client,
        cache: ObjectCache,
        recorder: EventRecorder,
        *,
        clock: Clock,
        options: DispatchOptions,
        connect: Connect = connect_http,
        on_dispatched: Count,
        on_admitted: Count,
    ) -> None:
        self._options = options
        self._clock = clock
        self._recorder = recorder
        self._connect = connect
        executor = WriteExecutor(client, cache, recorder, COMPONENT, field_manager="kueue-multikueue")
        table = AdapterTable(options.adapters)
        self.clusters = ClusterController(
            client,
            cache,
            executor,
            clock=clock,
            new_remote=self._new_remote,
            namespace=options.namespace,
            checks_paths=options.checks_paths,
            uses_profiles=options.uses_profiles,
            access_providers=options.access_providers,
        )
        self._checks = DispatchCheckController(cache, executor, clock)
        self.dispatching = DispatchController(
            client,
            cache,
            executor,
            clock=clock,
            clusters=self.clusters,
            table=table,
            policy=options.policy,
            on_dispatched=on_dispatched,
            on_admitted=on_admitted,
        )
        self._dispatcher = (
            IncrementalDispatcher(cache, executor, clock=clock, policy=options.policy)
            if options.is_incremental
            else None
        )
        self._quotas = (
            QuotaController(cache, executor, clock=clock, clusters=self.clusters) if options.automates_quotas else None
        )

    def _new_remote(self, name: str) -> RemoteCluster:
        quotas = self._quotas
        return RemoteCluster(
            name,
            self._options.adapters,
            origin=self._options.policy.origin,
            policy=self._options.policy.jobs,
            clock=self._clock,
            recorder=self._recorder,
            connect=self._connect,
            watches_queues=quotas is not None,
            on_change=self.dispatching.remote_changed,
            on_lost=self.clusters.lost,
            on_queue_change=quotas.remote_changed if quotas is not None else lambda _resource, _queue: None,
        )

    def loops(self) -> Iterator[tuple[WorkQueue[Any], Reconcile[Any], Resource]]:
        yield self.clusters.queue, self.clusters.reconcile, resources.MULTI_KUEUE_CLUSTER
        yield self._checks.queue, self._checks.reconcile, resources.ADMISSION_CHECK
        yield self.dispatching.queue, self.dispatching.reconcile, resources.WORKLOAD
        if self._dispatcher is not None:
            yield self._dispatcher.queue, self._dispatcher.reconcile, resources.WORKLOAD
        if self._quotas is not None:
            yield self._quotas.queue, self._quotas.reconcile, resources.CLUSTER_QUEUE

    async def run(self) -> None:
        """Run what is not reconciled by keys, and close the connections at the end."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.clusters.run())
            group.create_task(self.dispatching.collect_garbage(self._options.gc_interval_ns))
