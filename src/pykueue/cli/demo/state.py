"""What a view shows: jobs with their states, queues with their usage, and messages in order.

The state is computed from changes of Workloads and ClusterQueues.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pykueue.api import conditions, objects, resource_lists
from pykueue.api.scheme import Object
from pykueue.dashboard.board import Board
from pykueue.kube.informer import Change

_PREEMPTOR = re.compile(r"\(UID: ([^,)]+)[^)]*\)(?: due to ([^;]+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    uid: str
    name: str
    queue: str
    priority: str
    requests: str
    state: str
    """waiting, starting, running, stopping or finished."""
    preempted_by: str = ""
    why: str = ""
    preemptions: int = 0
    cluster: str = ""
    """The worker cluster that runs it, if another cluster does."""


@dataclass(slots=True)
class DemoState:
    jobs: dict[str, DemoJob] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    preemptions: int = 0
    ran: set[str] = field(default_factory=set)
    board: Board = field(default_factory=Board)

    def workload_changed(self, change: Change) -> None:
        self.board.change("workloads", change.type, change.object)
        uid = change.object["metadata"]["uid"]
        before = self.jobs.get(uid)
        if change.type == "DELETED":
            if before is not None:
                del self.jobs[uid]
                self.messages.append(f"{before.name} is gone")
            return
        job = job_of(change.object)
        self.jobs[uid] = job
        self._add_messages(before, job)

    def queue_changed(self, change: Change) -> None:
        self.board.change("clusterqueues", change.type, change.object)

    def _add_messages(self, before: DemoJob | None, job: DemoJob) -> None:
        if before is None:
            self.messages.append(f"{job.name} asks {job.queue} for {job.requests}")
        if job.preemptions > (before.preemptions if before else 0):
            self.preemptions += 1
            preemptor = self.jobs.get(job.preempted_by)
            by = f" by {preemptor.name}" if preemptor else ""
            self.messages.append(f"{job.name} is preempted{by}: {job.why}")
        if job.state == "running" and (before is None or before.state != "running"):
            again = " again" if job.uid in self.ran else ""
            self.ran.add(job.uid)
            where = f" on {job.cluster}" if job.cluster else ""
            self.messages.append(f"{job.name} is running{where}{again}")
        if job.state == "finished" and (before is None or before.state != "finished"):
            self.messages.append(f"{job.name} has finished")

    def has_jobs(self, prefixes_by_state: Mapping[str, Iterable[str]]) -> bool:
        """Whether every prefix matches a different job in its state."""
        return all(
            _match_all([job.name for job in self.jobs.values() if job.state == state], tuple(prefixes))
            for state, prefixes in prefixes_by_state.items()
        )


def _match_all(names: list[str], prefixes: tuple[str, ...]) -> bool:
    remaining = sorted(names)
    for prefix in sorted(prefixes, key=len, reverse=True):
        match = next((name for name in remaining if name.startswith(prefix)), None)
        if match is None:
            return False
        remaining.remove(match)
    return True


def job_of(workload: Object) -> DemoJob:
    spec = workload["spec"]
    owners = objects.owner_references(workload) or [workload["metadata"]]
    by_type = conditions.by_type(workload)
    preemptor = _PREEMPTOR.search(by_type.get("Preempted", {}).get("message", "")[:2000])
    return DemoJob(
        uid=objects.uid(workload),
        name=owners[0]["name"],
        queue=f"{objects.namespace(workload)}/{spec.get('queueName', '')}",
        priority=objects.nested(spec, "priorityClassRef").get("name", "") or str(spec.get("priority", 0)),
        requests=_requests(spec),
        state=_state(by_type),
        preempted_by=preemptor.group(1) if preemptor else "",
        why=(preemptor.group(2) or "") if preemptor else "",
        preemptions=_preemptions(workload),
        cluster=str(objects.status(workload).get("clusterName") or ""),
    )


def _state(by_type: Mapping[str, Object]) -> str:
    true = {name for name, condition in by_type.items() if conditions.has_status_true(condition)}
    if "Finished" in true:
        return "finished"
    if "Admitted" not in true:
        return "waiting"
    if "Evicted" in true:
        return "stopping"
    return "running" if "PodsReady" in true else "starting"


def _preemptions(workload: Object) -> int:
    evictions = objects.nested_list(workload, "status", "schedulingStats", "evictions")
    return sum(int(eviction.get("count", 0)) for eviction in evictions if eviction.get("reason") == "Preempted")


def _requests(spec: Object) -> str:
    lists = [
        resource_lists.pod_requests(pod_set["template"]["spec"])
        for pod_set in spec.get("podSets") or ()
        for _ in range(int(pod_set.get("count", 1)))
    ]
    total = resource_lists.to_text(resource_lists.total(lists))
    return ", ".join(f"{amount} {name.rpartition('/')[2]}" for name, amount in sorted(total.items())) or "nothing"
