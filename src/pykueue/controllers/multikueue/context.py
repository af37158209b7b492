"""The input and output of `decide`: a Workload, its copies on the workers, and what to write."""

from collections.abc import Iterable, Mapping

import msgspec

from pykueue.api import objects
from pykueue.api.labels import ELASTIC_JOB
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.controllers.jobs.context import JobPolicy
from pykueue.controllers.multikueue.adapters import Adapter
from pykueue.kube.controller.writes import Action

MANAGER = ""
"""The target of writes to the manager's own API; other targets are names of clusters."""

Stage = tuple[tuple[str, Action], ...]


class DispatchPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the Configuration that dispatching uses."""

    origin: str = "multikueue"
    worker_lost_timeout_ns: int = 900 * SECOND_NS
    nominates_all: bool = True
    """Whether the dispatcher is AllAtOnce; others write `nominatedClusterNames` themselves."""
    step_size: int = 3
    """How many more clusters the incremental dispatcher nominates at a time."""
    nominates_in_order: bool = True
    """Whether it nominates in the order of the MultiKueueConfig, or of the names."""
    orchestrates_preemption: bool = False
    syncs_spec: bool = True
    jobs: JobPolicy = msgspec.field(default_factory=JobPolicy)


class RemoteState(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has of a Workload."""

    workload: Object | None = None
    copies: tuple[tuple[Object, Object | None], ...] = ()
    """Each job of the manager, with its copy."""
    jobs: tuple[tuple[Resource, Object], ...] = ()
    """The jobs that belong to the Workload, with their kinds."""


class GroupContext(msgspec.Struct, frozen=True, kw_only=True):
    workload: Object
    check: Object
    """The state of its MultiKueue check."""
    adapter: Adapter
    remotes: Mapping[str, RemoteState]
    """By the names of the connected clusters, in the order of the MultiKueueConfig."""
    jobs: tuple[Object, ...] = ()
    """The jobs of the Workload on the manager."""
    unavailable: Mapping[str, int] = msgspec.field(default_factory=dict)
    """The clusters that are not connected, with the time since when they are lost."""
    components: tuple[Object, ...] = ()
    """The other Workloads of the same job."""
    expected_components: int = 1
    policy: DispatchPolicy = msgspec.field(default_factory=DispatchPolicy)
    now_ns: int = 0

    replaced: Object | None = None
    """The slice of an elastic job that the Workload replaces."""

    @property
    def cluster_name(self) -> str:
        """The cluster that runs the Workload; a new slice runs where the former one runs."""
        name = objects.status(self.workload).get("clusterName")
        if not name and self.is_elastic and self.replaced is not None:
            name = objects.status(self.replaced).get("clusterName")
        return str(name or "")

    def lost_for_ns(self, clusters: Iterable[str]) -> int:
        """How long the clusters still have to come back; 0 if that time is over."""
        since = max((self.unavailable[name] for name in clusters if name in self.unavailable), default=None)
        return 0 if since is None else max(0, since + self.policy.worker_lost_timeout_ns - self.now_ns)

    @property
    def nominated(self) -> list[str]:
        return objects.nested_list(self.workload, "status", "nominatedClusterNames")

    @property
    def is_elastic(self) -> bool:
        is_marked = objects.annotations(self.workload).get(ELASTIC_JOB) == "true"
        return self.policy.jobs.slices_workloads and is_marked

    def copies(self, *, with_deleted: bool = False) -> dict[str, Object]:
        """The copies by cluster; a deleted one is of no use but to see that it is finished."""
        return {
            name: remote.workload
            for name, remote in self.remotes.items()
            if remote.workload is not None and (with_deleted or not objects.is_deleted(remote.workload))
        }


class GroupPlan(msgspec.Struct, frozen=True, kw_only=True):
    stages: tuple[Stage, ...] = ()
    requeue_after_ns: int = 0
