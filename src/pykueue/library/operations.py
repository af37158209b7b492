"""What a program does with a cluster: apply, submit, wait, read, explain, simulate.

Each operation is a coroutine of `_Work` on a `Client`; `Operations` runs it on the loop of its
cluster, which is virtual (`virtual.Cluster`) or real (`remote.ConnectedCluster`).
"""

import abc
import asyncio
import contextlib
import difflib
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pykueue.api import durations, manifests, objects, registry, resources, schema
from pykueue.api.errors import ApiError
from pykueue.api.manifests import Document
from pykueue.api.scheme import Kind, Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.kube.client import STRICT, Client, DeleteOptions, get_or_none
from pykueue.kube.clock import Clock
from pykueue.library import jobs

if TYPE_CHECKING:
    from pykueue.simulate.engine_driver.simulation import SimulationOptions
    from pykueue.simulate.planning import Result
    from pykueue.simulate.sources.rows import JobRow

Manifest = str | Path | Object
Duration = str | float
"""`90`, `"90s"`, `"1h30m"`: a number is seconds."""
Answer = TypeVar("Answer")

_POLL_SECONDS = 0.5
_FINISHED = "Finished"
_CONDITIONS = {
    "Workload": (
        "Admitted",
        "BlockedOnPreemptionGates",
        "DeactivationTarget",
        "Evicted",
        "Finished",
        "PodsReady",
        "Preempted",
        "QuotaReserved",
        "Requeued",
        "WaitingForReplacementPods",
    ),
    "ClusterQueue": ("Active",),
    "LocalQueue": ("Active",),
    "AdmissionCheck": ("Active",),
    "MultiKueueCluster": ("Active",),
}
"""The conditions that Kueue sets, by kind."""
_NOT_FOUND = 404
_FORBIDDEN = 403


class ClusterError(Exception):
    """The cluster refused what was asked; the message says what is wrong and where."""


class WaitError(ClusterError):
    """What was waited for did not happen in time; the message explains why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation:
    """Why a job waits, or how it runs or ended, as `pykueue explain` says it."""

    job: str
    state: str
    """For example pending, running, finished or failed."""
    summary: str
    lines: tuple[str, ...]
    details: Mapping[str, Any]
    """All fields of `pykueue explain -o json`."""

    def __str__(self) -> str:
        return "\n".join((self.summary, *self.lines))


class Operations(abc.ABC):
    """The operations of every cluster. `namespace` is where names are looked up."""

    namespace = "default"
    settle_seconds = 0.0
    """How long a change is given to show its effects."""

    @abc.abstractmethod
    def _run(self, action: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """Run `await action(client)` on the loop of this cluster."""

    @property
    @abc.abstractmethod
    def _clock(self) -> Clock: ...

    @property
    def now(self) -> datetime:
        """The time of the cluster."""
        return datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)

    def apply(self, *sources: Manifest) -> list[Object]:
        """Create objects, or merge them into those that exist.

        A source is a file, a folder with manifests, the text of manifests (it has more than one
        line), or an object.
        """
        return self._run(lambda client: self._work(client).apply(_documents_of(sources)))

    def submit(
        self,
        command: str | Sequence[str] = ("true",),
        *,
        name: str = "",
        queue: str = "default",
        cpu: str | float = 1,
        memory: str = "",
        gpus: int = 0,
        parallelism: int = 1,
        completions: int = 0,
        priority: str = "",
        duration: Duration | None = None,
        exit_code: int = 0,
    ) -> str:
        """Create a Job in a queue and return its name.

        In virtual time the command is not run: the Job takes its `duration` (without one, as long
        as a `sleep N` in the command, else until it is deleted) and ends with `exit_code`.
        """
        options = jobs.SubmitOptions(
            command=command,
            name=name,
            queue=queue,
            cpu=str(cpu),
            memory=memory,
            gpus=gpus,
            parallelism=parallelism,
            completions=completions or parallelism,
            priority=priority,
            duration="" if duration is None else _text(duration),
            exit_code=exit_code,
        )
        return objects.name(self._run(lambda client: self._work(client).submit(options)))

    def wait(self, name: str, condition: str = _FINISHED, *, kind: str = "job", timeout: Duration = "24h") -> Object:
        """Wait until the workload of a job has a condition; return the workload.

        `kind` may be `workload`, or any kind whose objects have conditions (`condition="Active"`
        of a `clusterqueue`). WaitError after `timeout`.
        """
        seconds = _seconds(timeout)
        return self._run(lambda client: self._work(client).wait(kind, name, condition, seconds))

    def get(self, kind: str, name: str, *, namespace: str = "") -> Object:
        """An object, by the names that kubectl knows: `job`, `jobs`, `clusterqueue`, `cq`."""
        return self._run(lambda client: self._work(client).get(kind, name, namespace))

    def list(self, kind: str, *, namespace: str = "") -> "list[Object]":
        """The objects of a kind; `namespace="*"` means all namespaces."""
        return self._run(lambda client: self._work(client).list(kind, namespace))

    def patch(self, kind: str, name: str, patch: Object, *, namespace: str = "") -> Object:
        """Change an object with a merge patch."""
        return self._run(lambda client: self._work(client).patch(kind, name, patch, namespace))

    def delete(self, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object and what belongs to it."""
        self._run(lambda client: self._work(client).delete(kind, name, namespace))

    def workload(self, job: str, *, kind: str = "") -> Object:
        """The Workload of a job."""
        return self._run(lambda client: self._work(client).workload(kind, job))

    def is_admitted(self, job: str) -> bool:
        """Whether the workload of a job is admitted now."""
        return _has_condition(self.workload(job), "Admitted")

    def explain(self, job: str, *, kind: str = "") -> JobExplanation:
        """Why a job waits, or how it runs or ended."""
        return self._run(lambda client: self._work(client).explain(kind, job))

    def simulate(
        self,
        *changes: str,
        jobs: "str | Path | Iterable[JobRow]" = (),
        generate: str = "",
        options: "SimulationOptions | None" = None,
    ) -> "Result":
        """Run jobs on the queues of this cluster in the simulator, without touching the cluster.

        `jobs`, `generate` and the changes are those of `pykueue simulate`:
        `cluster.simulate("clusterqueue/team.nominalQuota[cpu]=8", jobs="jobs.csv")`.
        """
        from pykueue.simulate import notebook
        from pykueue.simulate.sources import cluster

        configuration = self._run(self._configuration)
        queues = self._run(cluster.read_objects)
        kinds = {"ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "Topology", "Node"}
        kinds |= {"WorkloadPriorityClass", "AdmissionCheck", "Namespace"}
        plan = notebook.plan(
            [obj for obj in queues if obj.get("kind") in kinds],
            jobs=jobs,
            generate=generate,
            configuration=configuration,
            options=options,
        )
        return notebook.run(plan, *changes)

    async def _configuration(self, client: Client) -> Mapping[str, Any]:
        from pykueue.app import running_configuration

        return await running_configuration.find(client)

    def _work(self, client: Client) -> "_Work":
        return _Work(client, self)


class _Work:
    def __init__(self, client: Client, cluster: Operations) -> None:
        self._client = client
        self._cluster = cluster

    async def apply(self, documents: Sequence[Document]) -> "list[Object]":
        written = [await self._apply(document) for document in documents]
        await self._settle()
        return written

    async def _apply(self, document: Document) -> Object:
        obj = document.object
        kind = _scheme().for_kind(obj.get("apiVersion", ""), obj.get("kind", ""))
        if kind is None:
            raise ClusterError(f"{_place(document)}unknown kind {obj.get('kind')} of {obj.get('apiVersion')}")
        namespace = (objects.namespace(obj) or self._cluster.namespace) if kind.namespaced else ""
        name = str((obj.get("metadata") or {}).get("name", ""))
        existing = await get_or_none(self._client, kind.resource, name, namespace) if name else None
        try:
            if existing is None:
                return await self._client.create(kind.resource, obj, namespace, STRICT)
            patch = {part: obj[part] for part in obj if part not in ("apiVersion", "kind", "status")}
            return await self._client.patch(kind.resource, name, namespace, patch, options=STRICT)
        except ApiError as error:
            raise ClusterError(_refusal(document, kind, name, error)) from None

    async def submit(self, options: jobs.SubmitOptions) -> Object:
        """Create a Job; ClusterError if its queue or priority class does not exist."""
        namespace = self._cluster.namespace
        await self._require(resources.LOCAL_QUEUE, options.queue, namespace, f" in namespace {namespace}")
        if options.priority:
            await self._require(resources.WORKLOAD_PRIORITY_CLASS, options.priority, "", "")
        return await self._create(jobs.job_of(options))

    async def _require(self, resource: Resource, name: str, namespace: str, where: str) -> None:
        """Refuse a name that does not exist, as `pykueue submit` does."""
        try:
            names = sorted(map(objects.name, (await self._client.list(resource, namespace)).items))
        except ApiError as error:
            if error.code != _FORBIDDEN:
                raise
            return
        if name not in names:
            existing = ", ".join(names) or "none"
            raise ClusterError(f"{resource.kind} {name} does not exist{where}; existing: {existing}")

    async def _create(self, job: Object) -> Object:
        with _errors_of("Job"):
            created = await self._client.create(resources.JOB, job, self._cluster.namespace)
        await self._settle()
        return created

    async def wait(self, kind: str, name: str, condition: str, seconds: float) -> Object:
        _check_condition(_watched(kind).kind, condition)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    obj, version = await self._waited(kind, name)
                    if obj is not None and _has_condition(obj, condition):
                        return obj
                    await self._next_change(kind, version)
        if await get_or_none(self._client, _kind(kind).resource, name, self._namespace(_kind(kind), "")) is None:
            raise WaitError(f"{kind} {name} does not exist after {seconds:g} s")
        reason = f"{kind} {name} is not {condition} after {seconds:g} s"
        with contextlib.suppress(ClusterError, ApiError):
            reason += f"\n{await self.explain('' if kind == 'workload' else kind, name)}"
        raise WaitError(reason)

    async def _waited(self, kind: str, name: str) -> tuple[Object | None, str]:
        """The object whose condition is waited for, None while there is none, and the version."""
        watched, namespace = _watched(kind), self._namespace(_watched(kind), "")
        page = await self._client.list(watched.resource, namespace)
        if watched is _kind(kind):
            return next((obj for obj in page.items if objects.name(obj) == name), None), page.resource_version
        owner = await get_or_none(self._client, _kind(kind).resource, name, self._namespace(_kind(kind), ""))
        return (_newest_of(page.items, objects.uid(owner)) if owner else None), page.resource_version

    async def _next_change(self, kind: str, version: str) -> None:
        watched = _watched(kind)
        changes = self._client.watch(watched.resource, self._namespace(watched, ""), resource_version=version)
        with contextlib.suppress(OSError):
            async for event in changes:
                if event.type != "BOOKMARK":
                    return
        await asyncio.sleep(_POLL_SECONDS)

    async def get(self, kind: str, name: str, namespace: str) -> Object:
        with _errors_of(f"{kind} {name}"):
            return await self._client.get(_kind(kind).resource, name, self._namespace(_kind(kind), namespace))

    async def list(self, kind: str, namespace: str) -> "list[Object]":
        namespace = "" if namespace == "*" else self._namespace(_kind(kind), namespace)
        return (await self._client.list(_kind(kind).resource, namespace)).items

    async def patch(self, kind: str, name: str, patch: Object, namespace: str) -> Object:
        with _errors_of(f"{kind} {name}"):
            obj = await self._client.patch(_kind(kind).resource, name, self._namespace(_kind(kind), namespace), patch)
        await self._settle()
        return obj

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        options = DeleteOptions(propagation_policy="Background")
        with _errors_of(f"{kind} {name}"):
            await self._client.delete(_kind(kind).resource, name, self._namespace(_kind(kind), namespace), options)
        await self._settle()

    async def workload(self, kind: str, job: str) -> Object:
        owner = await self.get(kind or "job", job, "")
        workload = await self._workload_of(objects.uid(owner))
        if workload is None:
            raise ClusterError(f"{kind or 'job'} {job} has no workload")
        return workload

    async def _workload_of(self, uid: str) -> Object | None:
        """The newest Workload of a job."""
        return _newest_of((await self._client.list(resources.WORKLOAD, self._cluster.namespace)).items, uid)

    async def explain(self, kind: str, name: str) -> JobExplanation:
        from pykueue.controllers.scheduler import job_facts, snapshot
        from pykueue.translate import job_explanations

        now_ns = self._cluster._clock.now_ns()  # noqa: SLF001 - the coroutines of the class
        configuration = await self._cluster._configuration(self._client)  # noqa: SLF001
        queues = await snapshot.observe(self._client, configuration, now_ns=now_ns)
        job = job_facts.JobReference(namespace=self._cluster.namespace, name=name, kind=kind)
        with _errors_of(f"{kind or 'job'} {name}"):
            facts = await job_facts.read(self._client, queues.engine.view, job, now_ns=now_ns)
        answer = job_explanations.as_json(facts, job_explanations.report(facts))
        return JobExplanation(
            job=answer["job"],
            state=answer["state"],
            summary=answer["summary"],
            lines=tuple(answer["lines"]),
            details=answer,
        )

    def _namespace(self, kind: Kind, namespace: str) -> str:
        return (namespace or self._cluster.namespace) if kind.namespaced else ""

    async def _settle(self) -> None:
        if self._cluster.settle_seconds:
            await asyncio.sleep(self._cluster.settle_seconds)


def _newest_of(workloads: Iterable[Object], uid: str) -> Object | None:
    """The newest Workload of the job with this uid."""
    owned = [obj for obj in workloads if any(owner["uid"] == uid for owner in objects.owner_references(obj))]
    return max(owned, key=lambda obj: str(obj["metadata"].get("creationTimestamp")), default=None)


def _watched(word: str) -> Kind:
    """The kind whose conditions are waited for: that of a job is its Workload."""
    kind = _kind(word)
    return kind if kind.group == resources.KUEUE_GROUP else _kind("workload")


_scheme = functools.cache(registry.scheme)


@functools.cache
def _kind(word: str) -> Kind:
    """The kind that kubectl means by a word."""
    lowered = word.lower()
    for kind in _scheme():
        if lowered in (kind.kind.lower(), kind.plural, kind.singular_name, *kind.short_names):
            return kind
    raise ClusterError(f"there is no kind {word!r}")


def _has_condition(obj: Object, condition: str) -> bool:
    items = (obj.get("status") or {}).get("conditions") or ()
    return any(item["type"] == condition and item["status"] == "True" for item in items)


@contextlib.contextmanager
def _errors_of(subject: str) -> Any:
    try:
        yield
    except ApiError as error:
        text = error.message if error.code != _NOT_FOUND else f"{subject.strip()}: {error.message}"
        raise ClusterError(text) from None


def _check_condition(kind: str, condition: str) -> None:
    """Refuse a condition that Kueue never sets."""
    conditions = _CONDITIONS.get(kind, (condition,))
    if condition in conditions:
        return
    by_lower = {name.lower(): name for name in conditions}
    close = difflib.get_close_matches(condition.lower(), by_lower, n=1)
    hint = f"did you mean {by_lower[close[0]]}?" if close else f"it has {', '.join(conditions)}"
    raise ClusterError(f"a {kind} has no condition {condition!r}; {hint}")


def _place(document: Document, field: str = "") -> str:
    """The file and line with a colon; empty for an object that is not of a file."""
    return f"{document.file}:{document.line_of(field) if field else document.line}: " if document.file else ""


def _refusal(document: Document, kind: Kind, name: str, error: ApiError) -> str:
    """What is wrong with a manifest, where, and what was probably meant."""
    subject = f"{kind.kind} {name}".strip()
    unknown = schema.unknown_fields(kind.schema, document.object)
    lines = [f"{_place(document, field.path)}{subject}: {field.hint()}" for field in unknown]
    return "\n".join(lines) or f"{_place(document)}{subject}: {error.message}"


def _documents_of(sources: Iterable[Manifest]) -> "list[Document]":
    items: list[Document] = []
    for source in sources:
        if isinstance(source, dict):
            items.append(Document(object=source, file="", line=0, source="", first_line=0))
            continue
        for name, data in _texts(source):
            documents, faults = manifests.read(data, name)
            if faults:
                raise ClusterError("\n".join(map(str, faults)))
            items += documents
    return items


def _texts(source: str | Path) -> "list[tuple[str, bytes]]":
    if isinstance(source, str) and "\n" in source:
        return [("<text>", source.encode())]
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in (".yaml", ".yml", ".json"))
        return [(str(file), file.read_bytes()) for file in files]
    if not path.exists():
        raise ClusterError(f"there is no file {path}; the text of manifests has more than one line")
    return [(str(path), path.read_bytes())]


def _text(duration: Duration) -> str:
    return duration if isinstance(duration, str) else f"{duration}s"


def _seconds(duration: Duration) -> float:
    try:
        return durations.to_ns(_text(duration)) / SECOND_NS
    except ValueError:
        raise ClusterError(f"{duration!r} is no duration; write for example 90s or 1h30m") from None
