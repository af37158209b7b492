"""What a run has besides plain queues and jobs, drawn from its seed.

Most features are on in some runs only, so that each is met alone and together with others.
"""

import random
from typing import Any

import msgspec

from pykueue.api.scheme import Object

FRAMEWORKS = [
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "kubeflow.org/pytorchjob",
    "pod",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "trainer.kubeflow.org/trainjob",
]
HOSTNAME = "kubernetes.io/hostname"
RACK = "example.com/rack"
POOL = "example.com/pool"
_RACKS, _HOSTS = 2, 2
_HOST_CPU = 3


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The features of one run."""

    fair_sharing: bool = False
    pods_ready: Object | None = None
    """The section `waitForPodsReady` of the Configuration."""
    elastic_jobs: bool = False
    topology: bool = False
    checks: bool = False
    concurrent_admission: bool = False
    nodes: tuple[Object, ...] = msgspec.field(default=())

    @property
    def configuration(self) -> dict[str, Any]:
        configuration: dict[str, Any] = {"integrations": {"frameworks": FRAMEWORKS}}
        if self.fair_sharing:
            strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
            configuration["fairSharing"] = {"preemptionStrategies": strategies}
        if self.pods_ready is not None:
            configuration["waitForPodsReady"] = self.pods_ready
        gates = {
            "ElasticJobsViaWorkloadSlices": self.elastic_jobs,
            "ConcurrentAdmission": self.concurrent_admission,
        }
        if enabled := {name: True for name, is_on in gates.items() if is_on}:
            configuration["featureGates"] = enabled
        return configuration

    def __str__(self) -> str:
        features = ("fair_sharing", "pods_ready", "elastic_jobs", "topology", "checks", "concurrent_admission")
        return ", ".join(name.replace("_", " ") for name in features if getattr(self, name)) or "plain"


PLAIN = Profile()


def draw(source: random.Random) -> Profile:
    has_topology = source.random() < 0.35
    return Profile(
        fair_sharing=source.random() < 0.3,
        pods_ready=_pods_ready(source) if source.random() < 0.35 else None,
        elastic_jobs=source.random() < 0.4,
        topology=has_topology,
        checks=source.random() < 0.35,
        concurrent_admission=source.random() < 0.3,
        nodes=topology_nodes() if has_topology else (),
    )


def _pods_ready(source: random.Random) -> Object:
    """Timeouts and a limit of requeues, after which a Workload whose pods never start is
    deactivated.
    """
    requeuing = {
        "timestamp": source.choice(("Eviction", "Creation")),
        "backoffBaseSeconds": source.choice((1, 5)),
        "backoffLimitCount": source.choice((1, 3)),
        "backoffMaxSeconds": 20,
    }
    return {
        "timeout": source.choice(("20s", "60s")),
        "recoveryTimeout": "20s",
        "blockAdmission": source.random() < 0.3,
        "requeuingStrategy": requeuing,
    }


def topology_nodes() -> tuple[Object, ...]:
    """Racks of small hosts for the topology, and one large node for everything else."""
    hosts = [
        _node(f"host-{rack}-{host}", str(_HOST_CPU), {RACK: f"rack-{rack}", POOL: "topology"})
        for rack in range(_RACKS)
        for host in range(_HOSTS)
    ]
    return *hosts, _node("large", "256", {POOL: "large"})


def _node(name: str, cpu: str, labels: dict[str, str]) -> Object:
    metadata = {"name": name, "labels": labels | {HOSTNAME: name}}
    capacity = {"cpu": cpu, "memory": "512Gi", "pods": "200"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": capacity}}
