"""What the audience sees: every job with its state, every queue with what it uses, and what happened, in order.

Fed with Workloads and ClusterQueues as they change; knows nothing of terminals.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pykueue.api import quantity, resource_lists
from pykueue.api.quantity import Quantity
from pykueue.api.scheme import Object
from pykueue.kube.informer import Change

_PREEMPTOR = re.compile(r"\(UID: ([^,)]+)[^)]*\)(?: due to ([^;]+))?")
_NOTHING = Quantity(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    uid: str
    name: str
    queue: str
    priority: str
    asks: str
    state: str
    """waiting, starting, running, stopping or finished."""
    preempted_by: str = ""
    why: str = ""
    preemptions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Use of one resource by one queue, out of what it may have at most."""

    queue: str
    cohort: str
    resource: str
    used: Quantity
    own: Quantity
    most: Quantity


@dataclass(slots=True)
class Board:
    jobs: dict[str, Job] = field(default_factory=dict)
    happenings: list[str] = field(default_factory=list)
    preemptions: int = 0
    ran: set[str] = field(default_factory=set)
    _queues: dict[str, Object] = field(default_factory=dict)

    def workload_changed(self, change: Change) -> None:
        uid = change.object["metadata"]["uid"]
        before = self.jobs.get(uid)
        if change.type == "DELETED":
            if before is not None:
                del self.jobs[uid]
                self.happenings.append(f"{before.name} is gone")
            return
        job = job_of(change.object)
        self.jobs[uid] = job
        self._tell(before, job)

    def queue_changed(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        if change.type == "DELETED":
            self._queues.pop(name, None)
        else:
            self._queues[name] = change.object

    def _tell(self, before: Job | None, job: Job) -> None:
        if before is None:
            self.happenings.append(f"{job.name} asks {job.queue} for {job.asks}")
        if job.preemptions > (before.preemptions if before else 0):
            self.preemptions += 1
            preemptor = self.jobs.get(job.preempted_by)
            by = f" by {preemptor.name}" if preemptor else ""
            self.happenings.append(f"{job.name} is preempted{by}: {job.why}")
        if job.state == "running" and (before is None or before.state != "running"):
            again = " again" if job.uid in self.ran else ""
            self.ran.add(job.uid)
            self.happenings.append(f"{job.name} is running{again}")
        if job.state == "finished" and (before is None or before.state != "finished"):
            self.happenings.append(f"{job.name} has finished")

    def shows(self, wanted: Mapping[str, Iterable[str]]) -> bool:
        """Whether each wanted beginning of a name has a job of its own in that state."""
        return all(
            _can_be_given([job.name for job in self.jobs.values() if job.state == state], tuple(prefixes))
            for state, prefixes in wanted.items()
        )

    def bars(self) -> list[Bar]:
        return [bar for _, queue in sorted(self._queues.items()) for bar in self._bars(queue)]

    def _bars(self, queue: Object) -> list[Bar]:
        name = queue["metadata"]["name"]
        cohort = queue["spec"].get("cohortName", "")
        used = _used(queue)
        bars = []
        for (flavor, resource), own in sorted(_nominal(queue).items()):
            shared = [
                _nominal(other).get((flavor, resource), _NOTHING)
                for other in self._queues.values()
                if cohort and other["spec"].get("cohortName", "") == cohort
            ]
            most = sum(shared, _NOTHING) if shared else own
            amount = used.get((flavor, resource), _NOTHING)
            bars.append(Bar(queue=name, cohort=cohort, resource=resource, used=amount, own=own, most=most))
        return bars


def _can_be_given(names: list[str], prefixes: tuple[str, ...]) -> bool:
    left = sorted(names)
    for prefix in sorted(prefixes, key=len, reverse=True):
        match = next((name for name in left if name.startswith(prefix)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _nominal(queue: Object) -> dict[tuple[str, str], Quantity]:
    return {
        (flavor["name"], resource["name"]): quantity.parse(resource.get("nominalQuota", "0"))
        for group in queue["spec"].get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for resource in flavor.get("resources") or ()
    }


def _used(queue: Object) -> dict[tuple[str, str], Quantity]:
    return {
        (flavor["name"], resource["name"]): quantity.parse(resource.get("total", "0"))
        for flavor in (queue.get("status") or {}).get("flavorsReservation") or ()
        for resource in flavor.get("resources") or ()
    }


def job_of(workload: Object) -> Job:
    metadata, spec, status = workload["metadata"], workload["spec"], workload.get("status") or {}
    owners = metadata.get("ownerReferences") or [{"name": metadata["name"]}]
    conditions = {found["type"]: found for found in status.get("conditions") or ()}
    found = _PREEMPTOR.search(conditions.get("Preempted", {}).get("message", ""))
    return Job(
        uid=metadata["uid"],
        name=owners[0]["name"],
        queue=f"{metadata['namespace']}/{spec.get('queueName', '')}",
        priority=(spec.get("priorityClassRef") or {}).get("name", "") or str(spec.get("priority", 0)),
        asks=_asks(spec),
        state=_state(conditions),
        preempted_by=found.group(1) if found else "",
        why=(found.group(2) or "") if found else "",
        preemptions=_evictions(status),
    )


def _state(conditions: Mapping[str, Object]) -> str:
    true = {name for name, found in conditions.items() if found["status"] == "True"}
    if "Finished" in true:
        return "finished"
    if "Admitted" not in true:
        return "waiting"
    if "Evicted" in true:
        return "stopping"
    return "running" if "PodsReady" in true else "starting"


def _evictions(status: Object) -> int:
    counted = (status.get("schedulingStats") or {}).get("evictions") or ()
    return sum(int(found.get("count", 0)) for found in counted if found.get("reason") == "Preempted")


def _asks(spec: Object) -> str:
    lists = [
        resource_lists.pod_requests(pod_set["template"]["spec"])
        for pod_set in spec.get("podSets") or ()
        for _ in range(int(pod_set.get("count", 1)))
    ]
    total = resource_lists.to_text(resource_lists.total(lists))
    return ", ".join(f"{amount} {name.rpartition('/')[2]}" for name, amount in sorted(total.items())) or "nothing"
