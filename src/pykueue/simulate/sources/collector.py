"""Turns rows and Workload objects into the `JobTable` of a simulation.

Rows with the same queue, priority and requests share one template, so a trace of a million jobs
needs a few hundred engine values.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.simulate.engine_driver.jobs import JobTable
from pykueue.simulate.engine_driver.world import World
from pykueue.simulate.sources.rows import JobRow, SourceError

ANY_QUEUE = "*"


@dataclass(slots=True)
class JobCollector:
    world: World
    queue_map: Mapping[str, str] = field(default_factory=dict)
    """The LocalQueue (`namespace/name`) of a queue in the trace; `*` is for all others."""
    scale: float = 1.0
    """Arrivals come so many times as fast."""
    jobs: JobTable = field(default_factory=JobTable)
    ignored_resources: set[str] = field(default_factory=set)
    """Requested, but in no quota: they cannot limit anything, so they are left out."""
    left_out: int = 0
    """Rows of traces without a run, such as jobs that were cancelled while they waited."""
    _queues: dict[str, str] = field(default_factory=dict)
    _templates: dict[tuple[object, ...], int] = field(default_factory=dict)
    _covered: frozenset[str] | None = None
    _submitted: "list[tuple[int, array[int]]]" = field(default_factory=list)
    """The first number and the submit times of each source of rows, as the source has them."""

    def notes(self) -> Iterator[str]:
        """What of the jobs is not simulated."""
        if self.ignored_resources:
            names = ", ".join(sorted(self.ignored_resources))
            yield f"No quota covers {names}, so requests for it are ignored."
        if self.left_out:
            rows = "1 row" if self.left_out == 1 else f"{self.left_out:,} rows"
            yield f"{rows} without a complete run left out."

    def add_rows(self, rows: Iterable[JobRow | None], file: str) -> None:
        """Add jobs; the earliest of all arrives at time 0, whatever the order of the rows."""
        submitted = array("q")
        self._submitted.append((len(self.jobs), submitted))
        for row in rows:
            if row is None:
                self.left_out += 1
                continue
            key = (row.queue, row.priority, row.pods, row.limit_ns, *row.requests.items())
            template = self._templates.get(key)
            if template is None:
                template = self._templates[key] = self._template(row, file)
            submitted.append(row.submit_ns)
            self.jobs.add(
                template,
                submit_ns=0,
                run_ns=row.run_ns,
                name=row.name,
                startup_ns=row.startup_ns,
                owner=row.owner,
            )
        first_ns = min((min(times) for _, times in self._submitted if times), default=0)
        for start, times in self._submitted:
            for number, submit_ns in enumerate(times, start):
                self.jobs.submit_ns[number] = round((submit_ns - first_ns) / self.scale)

    def add_workload(
        self, workload: Object, *, submit_ns: int, run_ns: int | None, name: str = "", startup_ns: int = 0
    ) -> None:
        limit = workload["spec"].get("maximumExecutionTimeSeconds")
        template = self.jobs.add_template(
            self.world.workload_value(workload), limit_ns=None if limit is None else limit * 10**9
        )
        self.jobs.add(
            template, submit_ns=submit_ns, run_ns=run_ns, name=name or objects.name(workload), startup_ns=startup_ns
        )

    def _template(self, row: JobRow, file: str) -> int:
        namespace, _, queue = self._queue_of(row.queue, file).partition("/")
        covered = self._covered_resources()
        self.ignored_resources |= row.requests.keys() - covered
        requests = {name: amount for name, amount in row.requests.items() if name in covered}
        if not requests:
            names = ", ".join(sorted(row.requests)) or "nothing"
            remedy = f"The queues have quota for {', '.join(sorted(covered))}."
            raise SourceError(f"jobs request {names}, which no quota covers", file=file, remedy=remedy)
        container = {"name": "main", "resources": {"requests": requests}}
        pod_set = {"name": "main", "count": row.pods, "template": {"spec": {"containers": [container]}}}
        workload = {
            "apiVersion": resources.WORKLOAD.api_version,
            "kind": "Workload",
            "metadata": {"name": "prototype", "namespace": namespace},
            "spec": {"queueName": queue, "priority": row.priority, "podSets": [pod_set]},
        }
        return self.jobs.add_template(self.world.workload_value(workload), limit_ns=row.limit_ns)

    def _covered_resources(self) -> frozenset[str]:
        if self._covered is None:
            queues = self.world.engine.view.cluster_queues()
            self._covered = frozenset(str(resource) for queue in queues for resource in queue.covered_resources)
        return self._covered

    def _queue_of(self, name: str, file: str) -> str:
        """The LocalQueue that the row means: by its name, namespace or ClusterQueue."""
        if name not in self._queues:
            key = self.queue_map.get(name) or self._unique(name) or self.queue_map.get(ANY_QUEUE)
            keys = [queue.key for queue in self.world.engine.view.local_queues()]
            if key is None or key not in keys:
                remedy = (
                    f"Map it with --queue-map '{name or ANY_QUEUE}=NAMESPACE/NAME', or all queues with "
                    f"'{ANY_QUEUE}=NAMESPACE/NAME'. LocalQueues: {', '.join(keys)}."
                )
                raise SourceError(f"no LocalQueue for the queue {key or name!r}", file=file, remedy=remedy)
            self._queues[name] = key
        return self._queues[name]

    def _unique(self, name: str) -> str | None:
        queues = self.world.engine.view.local_queues()
        for matches in (
            [queue.key for queue in queues if queue.key == name],
            [queue.key for queue in queues if name in queue.key.split("/")],
            [queue.key for queue in queues if queue.cluster_queue == name],
            [queue.key for queue in queues] if not name else [],
        ):
            if len(matches) == 1:
                return str(matches[0])
        return None
