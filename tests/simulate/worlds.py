"""Small worlds for tests of the discrete-event driver."""

from typing import Any

from pykueue.api.times import SECOND_NS
from pykueue.simulate.engine_driver.jobs import JobTable
from pykueue.simulate.engine_driver.simulation import JobRun
from pykueue.simulate.engine_driver.world import World

KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"


def cluster_queue(name: str, gpus: int, *, flavor: str = "gpu", **spec: Any) -> dict[str, Any]:
    quota = {"name": GPU, "nominalQuota": str(gpus)}
    group = {"coveredResources": [GPU], "flavors": [{"name": flavor, "resources": [quota]}]}
    return {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
    }


def local_queue(cluster_queue_name: str, namespace: str | None = None) -> dict[str, Any]:
    metadata = {"name": "main", "namespace": namespace or cluster_queue_name}
    spec = {"clusterQueue": cluster_queue_name}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": spec}


def flavor(name: str = "gpu", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def workload(namespace: str, gpus: int, *, priority: int = 0, count: int = 1, **pod_set: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
    pod_sets = [{"name": "main", "count": count, "template": {"spec": {"containers": [container]}}, **pod_set}]
    return {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": "prototype", "namespace": namespace},
        "spec": {"queueName": "main", "priority": priority, "podSets": pod_sets},
    }


class Jobs:
    """Fills a table with jobs; times are in seconds."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.table = JobTable()

    def add(self, name: str, gpus: int, *, at: int = 0, run: int | None = 10, **options: Any) -> None:
        namespace = options.pop("namespace", "team-a")
        startup = options.pop("startup", 0)
        limit = options.pop("limit", None)
        prototype = self._world.workload_value(workload(namespace, gpus, **options))
        template = self.table.add_template(prototype, limit_ns=None if limit is None else limit * SECOND_NS)
        self.table.add(
            template,
            submit_ns=at * SECOND_NS,
            run_ns=None if run is None else run * SECOND_NS,
            name=name,
            startup_ns=startup * SECOND_NS,
        )


class Story:
    """An observer that writes down every step as a line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def _add(self, at_ns: int, words: str, job: JobRun) -> None:
        self.lines.append(f"{at_ns // SECOND_NS}s {job.key.partition('/')[2]} {words}")

    def queued(self, job: JobRun, at_ns: int) -> None:
        self._add(at_ns, "queued", job)

    def reserved(self, job: JobRun, at_ns: int) -> None:
        self._add(at_ns, "reserved", job)

    def started(self, job: JobRun, at_ns: int) -> None:
        self._add(at_ns, "started", job)

    def evicted(self, job: JobRun, at_ns: int, *, reason: str, by: str | None, lost_ns: int) -> None:
        self._add(at_ns, f"evicted {reason} by {by} lost {lost_ns // SECOND_NS}s", job)

    def released(self, job: JobRun, at_ns: int) -> None:
        self._add(at_ns, "released", job)

    def ended(self, job: JobRun, at_ns: int, *, how: str) -> None:
        self._add(at_ns, how, job)
