"""The connection to one worker: a client, and a cache of what this manager created there.

    disconnected ──connect──▶ listing ──all kinds listed──▶ connected
         ▲                       │                             │
         └──── a failure ────────┴──── a watch or probe fails ─┘

A new connection begins with an empty cache, because the worker may have been restored from a
backup. The time of the first loss is remembered until a connection is complete again.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from pykueue.api import objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.labels import MULTI_KUEUE_ORIGIN
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.controllers.cache import with_pod_specs
from pykueue.controllers.jobs.context import JobPolicy
from pykueue.controllers.multikueue.adapters import Adapter, workload_names
from pykueue.controllers.multikueue.context import RemoteState
from pykueue.controllers.multikueue.kubeconfig import Document
from pykueue.controllers.multikueue.worker_client import WorkerClient
from pykueue.controllers.workloads import predicates
from pykueue.kube import access
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest, version_of
from pykueue.kube.controller.event_recorder import EventRecorder
from pykueue.kube.controller.executor import ObjectDeletedError, WriteExecutor
from pykueue.kube.controller.writes import Action, Delete
from pykueue.kube.http_client import HttpClient, ResponseLimits
from pykueue.kube.informer import Reflector

log = logging.getLogger(__name__)

COMPONENT = "kueue-multikueue"
PROBE_SECONDS = 30.0
PROBE_TIMEOUT_SECONDS = 15.0
"""A server that is silent for longer is lost: a half-open connection fails by no error."""
MOST_ENDED = 4096
RETRY_NS = 5 * SECOND_NS
MOST_RETRY_STEPS = 7
FIRST_CONNECT_NS = 60 * SECOND_NS
LONGEST_CONNECT_NS = 600 * SECOND_NS

Connect = Callable[[Document], Awaitable[Client]]
RESPONSE_LIMITS = ResponseLimits(
    response_bytes=64 * 1024 * 1024, line_bytes=8 * 1024 * 1024, watch_bytes=512 * 1024 * 1024
)
QUEUES: tuple[Resource, ...] = (resources.CLUSTER_QUEUE, resources.LOCAL_QUEUE)


async def connect_http(document: Document) -> Client:
    return HttpClient(await access.from_document(document, Path("the kubeconfig")), limits=RESPONSE_LIMITS)


def retry_ns(failures: int) -> int:
    """How long to wait after so many failures in a row: 5 s, doubled up to 5 min 20 s."""
    return 0 if failures == 0 else RETRY_NS << (min(failures, MOST_RETRY_STEPS) - 1)


class ConnectionLostError(Exception):
    """The worker is not reached; the message says why."""


class _Watch(Reflector):
    """A list and watch that ends with the first failure, and lists again after every watch."""

    async def _back_off(self, error: Exception) -> None:
        raise ConnectionLostError(str(error) or type(error).__name__) from error

    async def _watch(self) -> None:
        await super()._watch()
        self.resource_version = ""


class RemoteCluster:
    """`on_change` is called with the key of a local Workload, and `on_lost` when a connection that
    was complete ends.
    """

    def __init__(
        self,
        name: str,
        adapters: Iterable[Adapter],
        *,
        origin: str,
        policy: JobPolicy,
        clock: Clock,
        recorder: EventRecorder,
        connect: Connect = connect_http,
        watches_queues: bool = False,
        on_change: Callable[[Key], None],
        on_lost: Callable[[str], None],
        on_queue_change: Callable[[Resource, Object], None] = lambda _resource, _queue: None,
    ) -> None:
        self.name = name
        self.is_connected = False
        self.lost_since_ns = clock.now_ns()
        """When the connection was lost, or since when there is none; valid while disconnected."""
        self.cache = ObjectCache()
        self._adapters = tuple(adapters)
        self._origin = origin
        self._policy = policy
        self._clock = clock
        self._recorder = recorder
        self._connect = connect
        self._watches_queues = watches_queues
        self._on_change = on_change
        self._on_lost = on_lost
        self._on_queue_change = on_queue_change
        self._document: Document | None = None
        self._failures = 0
        self._next_attempt_ns = 0
        self._client: Client | None = None
        self._executor: WriteExecutor | None = None
        self._task: asyncio.Task[None] | None = None
        self._listed_versions: dict[Resource, int] = {}
        self._ended: OrderedDict[tuple[Resource, Key], Object] = OrderedDict()
        """The last state of copies that somebody else deleted, such as jobs with a TTL."""
        self._deleted_uids: set[str] = set()
        """Copies that the manager deletes."""

    @property
    def executor(self) -> WriteExecutor:
        if self._executor is None or not self.is_connected:
            raise ApiError(503, "ServiceUnavailable", f"cluster {self.name} is not connected")
        return self._executor

    # Connecting

    async def refresh(self, document: Document) -> int:
        """Connect if necessary; return when to try again, 0 if the connection is complete.

        Raise ConnectionLostError if a try fails; `retry_after_ns` then says when to try again.
        """
        if document != self._document:
            self._failures, self._next_attempt_ns = 0, 0
        elif self.is_connected:
            return 0
        elif (wait_ns := self._next_attempt_ns - self._clock.now_ns()) > 0:
            return wait_ns
        await self.disconnect()
        self._document = document
        try:
            await asyncio.wait_for(self._open(document), self._connect_seconds)
        except TimeoutError as error:
            await self._fail()
            raise ConnectionLostError("watch establishment timed out") from error
        except (ConnectionLostError, ApiError, OSError, ValueError, access.AccessError) as error:
            await self._fail()
            raise ConnectionLostError(str(error) or type(error).__name__) from error
        self._failures, self._next_attempt_ns = 0, 0
        return 0

    async def _fail(self) -> None:
        await self.disconnect()
        self._failures += 1
        self._next_attempt_ns = self._clock.now_ns() + retry_ns(self._failures)

    @property
    def _connect_seconds(self) -> float:
        """How long a try may take: one minute, doubled with each failure up to ten."""
        return min(FIRST_CONNECT_NS << min(self._failures, 8), LONGEST_CONNECT_NS) / SECOND_NS

    @property
    def retry_after_ns(self) -> int:
        return max(1, self._next_attempt_ns - self._clock.now_ns())

    async def _open(self, document: Document) -> None:
        connected = await self._connect(document)
        self._client = client = WorkerClient(connected, origin=self._origin, unlabelled=QUEUES)
        self.cache = cache = self._new_cache()
        self._executor = WriteExecutor(client, cache, self._recorder, COMPONENT, field_manager=COMPONENT)
        self._listed_versions = {}
        self._deleted_uids.clear()
        kinds = [*self._kinds()]
        self._task = task = asyncio.get_running_loop().create_task(self._run(client, cache, kinds))
        listed = asyncio.get_running_loop().create_task(cache.listed(kinds))
        try:
            await asyncio.wait({task, listed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            listed.cancel()
        if task.done():
            task.result()
        self.is_connected = True

    def _kinds(self) -> Iterable[Resource]:
        yield resources.WORKLOAD
        yield from (adapter.resource for adapter in self._adapters)
        if self._watches_queues:
            yield from QUEUES

    def _new_cache(self) -> ObjectCache:
        cache = ObjectCache()
        cache.set_transform(resources.WORKLOAD, with_pod_specs)
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        for adapter in self._adapters:
            cache.add_index(adapter.resource, "workload", partial(self._workload_keys, adapter))
            cache.on_change(adapter.resource, partial(self._job_changed, adapter))
        if self._watches_queues:
            for resource in QUEUES:
                cache.on_change(resource, partial(self._queue_changed, resource))
        return cache

    async def _run(self, client: Client, cache: ObjectCache, kinds: Iterable[Resource]) -> None:
        """Watch until something fails."""
        failure: BaseException = ConnectionLostError("the watches ended")
        try:
            async with asyncio.TaskGroup() as group:
                for kind in kinds:
                    group.create_task(self._reflector(client, cache, kind).run())
                group.create_task(self._probe(client))
        except* (ConnectionLostError, ApiError, OSError) as errors:
            failure = errors
            while isinstance(failure, BaseExceptionGroup):
                failure = failure.exceptions[0]
        self._lose(client, failure)
        raise ConnectionLostError(str(failure) or type(failure).__name__)

    def _reflector(self, client: Client, cache: ObjectCache, kind: Resource) -> Reflector:
        return _Watch(
            client,
            kind,
            on_list=partial(self._listed, cache, kind),
            on_event=partial(cache.apply_event, kind),
            label_selector="" if kind in QUEUES else f"{MULTI_KUEUE_ORIGIN}={self._origin}",
            sleep=self._clock.sleep,
        )

    def _listed(self, cache: ObjectCache, kind: Resource, items: list[Object], version: str) -> None:
        """Store a list; versions that went back show a worker that was restored from a backup."""
        number = int(version or 0)
        newest = max([self._listed_versions.get(kind, 0), *map(version_of, cache.all(kind))])
        if number < newest:
            raise ConnectionLostError(f"the versions of {kind.plural} went back from {newest} to {number}")
        self._listed_versions[kind] = number
        cache.replace(kind, items, version)

    async def _probe(self, client: Client) -> None:
        while True:
            await self._clock.sleep(PROBE_SECONDS)
            try:
                await asyncio.wait_for(client.raw("GET", "/version"), PROBE_TIMEOUT_SECONDS)
            except TimeoutError:
                text = f"no answer for {PROBE_TIMEOUT_SECONDS:.0f} s"
                raise ConnectionLostError(text) from None

    # Disconnecting

    def _lose(self, client: Client, error: BaseException) -> None:
        if client is not self._client or not self.is_connected:
            return
        log.warning("the connection to cluster %s is lost: %s", self.name, error)
        self.is_connected = False
        self.lost_since_ns = self._clock.now_ns()
        self._on_lost(self.name)

    async def disconnect(self) -> None:
        if self.is_connected:
            self.is_connected = False
            self.lost_since_ns = self._clock.now_ns()
        task, client = self._task, self._client
        self._task = self._client = self._executor = None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()
        if client is not None:
            await client.close()

    # What changes on the worker

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        self._remember(resources.WORKLOAD, old, new)
        workload = latest(old, new)
        self._on_change((objects.namespace(workload), objects.name(workload)))

    def _workload_keys(self, adapter: Adapter, job: Object) -> list[str]:
        return [f"{objects.namespace(job)}/{name}" for name in workload_names(adapter, job, self._policy)]

    def _job_changed(self, adapter: Adapter, old: Object | None, new: Object | None) -> None:
        self._remember(adapter.resource, old, new)
        job = latest(old, new)
        for name in workload_names(adapter, job, self._policy):
            self._on_change((objects.namespace(job), name))

    def _queue_changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        self._on_queue_change(resource, latest(old, new))

    def _remember(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        if new is not None or old is None:
            return
        if objects.uid(old) in self._deleted_uids:
            self._deleted_uids.discard(objects.uid(old))
            return
        self._ended[resource, key_of(old)] = old
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)

    # Reading

    def workload(self, key: Key) -> Object | None:
        """The copy of a Workload, also one that was finished and then deleted by the worker."""
        namespace, name = key
        workload = self.cache.get(resources.WORKLOAD, name, namespace)
        ended = self._ended.get((resources.WORKLOAD, key))
        return ended if workload is None and ended is not None and predicates.is_finished(ended) else workload

    def copy(self, adapter: Adapter, job: Object, *, with_ended: bool) -> Object | None:
        namespace, name = key = key_of(job)
        copy = self.cache.get(adapter.resource, name, namespace)
        return self._ended.get((adapter.resource, key)) if copy is None and with_ended else copy

    def state(self, key: Key, adapter: Adapter | None = None, jobs: Iterable[Object] = ()) -> RemoteState:
        """What the worker has of a Workload, and of its jobs on the manager."""
        workload = self.workload(key)
        is_finished = workload is not None and predicates.is_finished(workload)
        copies = () if adapter is None else ((job, self.copy(adapter, job, with_ended=is_finished)) for job in jobs)
        own = (
            (kind.resource, job)
            for kind in self._adapters
            for job in self.cache.indexed(kind.resource, "workload", "/".join(key))
        )
        return RemoteState(workload=workload, copies=tuple(copies), jobs=tuple(own))

    async def read_jobs(self, adapter: Adapter, jobs: Iterable[Object]) -> None:
        """Read the copies of jobs from the worker.

        The watch of Workloads may be ahead of the watch of jobs: a Workload is finished after its
        job, and its job shows the result.
        """
        client = self._client
        if client is None:
            raise ApiError(503, "ServiceUnavailable", f"cluster {self.name} is not connected")
        for job in jobs:
            namespace, name = key_of(job)
            try:
                copy = await client.get(adapter.resource, name, namespace)
            except ApiError as error:
                if error.code == 404 and self.cache.get(adapter.resource, name, namespace) is None:
                    continue
                raise
            except (TimeoutError, OSError) as error:
                raise self._unreachable(error) from error
            if objects.labels(copy).get(MULTI_KUEUE_ORIGIN) == self._origin:
                self.cache.observe(adapter.resource, copy)

    def _unreachable(self, error: Exception) -> ApiError:
        return ApiError(503, "ServiceUnavailable", f"cluster {self.name}: {error or type(error).__name__}")

    async def apply(self, actions: Iterable[Action]) -> None:
        """Perform writes on the worker; raise ApiError, also if it is not reached."""
        writes = list(actions)
        for action in writes:
            if isinstance(action, Delete):
                self._deleted_uids.add(objects.uid(action.object))
                self._ended.pop((action.resource, key_of(action.object)), None)
        try:
            await self.executor.apply(writes)
        except ObjectDeletedError:
            return
        except (TimeoutError, OSError) as error:
            raise self._unreachable(error) from error
