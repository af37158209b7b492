"""Follows every committed change of the API and every start of a container, and checks what must
hold at each moment.

What other parts learn late is given a grace of virtual time. A violation is collected here; the
campaign ends with it.
"""

import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence

from pykueue.api import conditions, objects, quantity
from pykueue.api.labels import WORKLOAD_SLICE_REPLACEMENT_FOR
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.apiserver.store.rows import StoreChange, Stored, StoreKey
from pykueue.apiserver.store.store import Store
from pykueue.kube.clock import Clock
from pykueue.simulate.containers import SimulatedProcess
from pykueue.simulate.trace import Trace
from pykueue.translate import variants

GRACE_NS = 300 * SECOND_NS
"""Longer than any retry takes while requests fail."""
QUOTA_GRACE_NS = 60 * SECOND_NS
"""How long an admission may rest on quota that has been changed."""
RATE_SECONDS = 10
MOST_WRITES = 150
"""Of one object within `RATE_SECONDS`."""
MOST_PREEMPTIONS = 8
"""Of one Workload within `RATE_SECONDS`."""
_UNIMPORTANT = frozenset({"leases", "events"})
_INDEX = "batch.kubernetes.io/job-completion-index"

FlavorResource = tuple[str, str]


class Monitor:
    def __init__(self, clock: Clock, trace: Trace) -> None:
        self.violations: list[str] = []
        self.last_change_ns = 0
        """When something other than a Lease or an Event was written."""
        self.last_changes: Counter[str] = Counter()
        self._clock = clock
        self._trace = trace
        self._objects: dict[StoreKey, Stored] = {}
        self._by_uid: dict[str, StoreKey] = {}
        self._workloads: dict[StoreKey, Object] = {}
        self._queues: dict[str, Object] = {}
        self._former_queues: deque[tuple[int, dict[str, Object]]] = deque()
        """The ClusterQueues as they were until a time, the oldest first."""
        self._reactivated_ns = 0
        self._last_admitted_ns: dict[str, int] = {}
        """By the uid of the Workload's owner."""
        self.had_stopped_queues = False
        """Whether a LocalQueue was stopped since the engine started.

        As in Kueue, quota that is released by its Workloads wakes nobody then; a fresh engine
        knows better.
        """
        self._stopped_queues: dict[StoreKey, None] = {}
        self._waited_for_pods_ns = 0
        self.started_by_user: set[str] = set()
        """Uids of Jobs whose pods may run for a moment without an admission."""
        self._orphaned_ns: dict[StoreKey, int] = {}
        self._pods_of: dict[str, dict[StoreKey, Object]] = defaultdict(dict)
        """Pods that may still run, by the uid of their Job."""
        self._most_pods: dict[str, int] = {}
        self._starts: Counter[str] = Counter()
        self._rates: dict[str, tuple[int, int]] = {}
        self.preemption_cycles: dict[StoreKey, None] = {}
        """Workloads that are preempted again and again within a short time."""
        self._preemptions: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=MOST_PREEMPTIONS))

    def report(self, violation: str) -> None:
        self._trace.add("VIOLATION", violation)
        self.violations.append(violation)

    def load(self, store: Store) -> None:
        """After a restart of the API server: take over what was committed but never published."""
        stored = [item for group, plural in store.collections() for item in store.select(group, plural)]
        present = {item.key for item in stored}
        deleted = [item for key, item in self._objects.items() if key not in present]
        for item in deleted:
            self._apply(item, is_deleted=True)
        for item in stored:
            if item.key not in self._objects or self._objects[item.key].revision != item.revision:
                self._apply(item, is_deleted=False)

    def changed(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            key, now = change.now.key, change.now
            verb = "delete" if change.is_deleted else "write"
            self._trace.add(verb, f"{key.plural}/{key.namespace}/{key.name} {zlib.crc32(now.data):08x}")
            if key.plural not in _UNIMPORTANT:
                self.last_change_ns = self._clock.now_ns()
                self.last_changes[str(key)] += 1
            self._check_rate(now)
            self._apply(now, is_deleted=change.is_deleted)

    def _apply(self, stored: Stored, *, is_deleted: bool) -> None:
        if is_deleted:
            self._objects.pop(stored.key, None)
            self._by_uid.pop(stored.meta.uid, None)
        else:
            self._objects[stored.key] = stored
            self._by_uid[stored.meta.uid] = stored.key
        self._follow(stored.key, stored, is_deleted=is_deleted)

    def _check_rate(self, stored: Stored) -> None:
        """Two writers that undo each other, or one that never agrees with the server, would go on
        for ever.
        """
        second = self._clock.now_ns() // SECOND_NS
        since, count = self._rates.get(stored.meta.uid, (second, 0))
        if second - since > RATE_SECONDS:
            since, count = second, 0
        self._rates[stored.meta.uid] = (since, count + 1)
        if count == MOST_WRITES:
            self.report(f"{stored.key} was written {count} times in {RATE_SECONDS} s")

    def _follow(self, key: StoreKey, stored: Stored, *, is_deleted: bool) -> None:
        match key.plural:
            case "workloads":
                self._workload_changed(key, None if is_deleted else stored.shared_or_decoded())
            case "localqueues":
                self._local_queue_changed(key, None if is_deleted else stored.shared_or_decoded())
            case "clusterqueues":
                self._queue_changed(key, None if is_deleted else stored.shared_or_decoded())
            case "pods":
                self._pod_changed(key, stored.shared_or_decoded(), is_deleted=is_deleted)
            case "jobs":
                parallelism = int(objects.spec(stored.shared_or_decoded()).get("parallelism", 1))
                uid = stored.meta.uid
                self._most_pods[uid] = max(self._most_pods.get(uid, 0), parallelism)

    # Quota

    def _queue_changed(self, key: StoreKey, queue: Object | None) -> None:
        former = dict(self._queues)
        before = self._queues.pop(key.name, None)
        if queue is not None:
            self._queues[key.name] = queue
        if before is None or queue is None or before["spec"] != queue["spec"]:
            self._former_queues.append((self._clock.now_ns(), former))

    def _local_queue_changed(self, key: StoreKey, queue: Object | None) -> None:
        self._stopped_queues.pop(key, None)
        if queue is not None and objects.spec(queue).get("stopPolicy", "None") != "None":
            self._stopped_queues[key] = None
            self.had_stopped_queues = True

    def engine_restarted(self) -> None:
        self.had_stopped_queues = bool(self._stopped_queues)

    def _workload_changed(self, key: StoreKey, workload: Object | None) -> None:
        before = self._workloads.pop(key, None)
        for state in (before, workload):
            if state is not None and conditions.is_true(state, "Admitted"):
                for owner in objects.owner_references(state):
                    self._last_admitted_ns[owner["uid"]] = self._clock.now_ns()
        if workload is None:
            return
        self._workloads[key] = workload
        if before is not None and _preemptions(before) != _preemptions(workload):
            self._count_preemption(key, objects.uid(workload))
        if before is not None and before["spec"].get("active", True) != workload["spec"].get("active", True):
            # An active Workload counts again, whoever took its quota.
            self._reactivated_ns = self._clock.now_ns()
        if _waits_for_pods(workload):
            self._waited_for_pods_ns = self._clock.now_ns()
        if holds_quota(workload) and (before is None or not holds_quota(before)):
            self._check_quota(key, workload)

    def _count_preemption(self, key: StoreKey, uid: str) -> None:
        times = self._preemptions[uid]
        times.append(self._clock.now_ns())
        if len(times) == MOST_PREEMPTIONS and times[-1] - times[0] < RATE_SECONDS * SECOND_NS:
            self.preemption_cycles[key] = None
            times.clear()

    def _check_quota(self, key: StoreKey, workload: Object) -> None:
        """A new reservation fits the quotas of its cohort and the borrowing limit of its queue.

        The quotas of a moment ago count too.
        """
        now_ns, former = self._clock.now_ns(), self._former_queues
        while former and now_ns - former[0][0] > QUOTA_GRACE_NS:
            former.popleft()
        if now_ns - self._reactivated_ns < QUOTA_GRACE_NS:
            return
        excess = self._excess(self._queues, workload)
        if excess and all(self._excess(queues, workload) for _, queues in former):
            self.report(f"{key} was admitted, {excess}")

    def _excess(self, queues: dict[str, Object], workload: Object) -> str:
        """What is used beyond these quotas; empty if nothing is."""
        name = objects.nested(workload, "status", "admission").get("clusterQueue", "")
        queue = queues.get(name)
        if queue is None:
            return f"but there is no queue {name}"
        cohort = objects.spec(queue).get("cohortName", "")
        members = [other for other in queues.values() if cohort and objects.spec(other).get("cohortName") == cohort]
        for some, limit in (([queue], _limits(queue)), (members or [queue], _total(members or [queue]))):
            used = self.usage(objects.name(member) for member in some)
            for index in usage_of(workload):
                if index in limit and used[index] > limit[index]:
                    return f"{used[index]} of {index} are used, {limit[index]} may be"
        return ""

    def usage(self, queues: Iterator[str]) -> Counter[FlavorResource]:
        """What the Workloads of some queues use.

        The slice of an elastic job shares its quota with the slice that it replaces.
        """
        names = set(queues)
        total: Counter[FlavorResource] = Counter()
        replaced = {
            objects.annotations(workload).get(WORKLOAD_SLICE_REPLACEMENT_FOR)
            for workload in self._workloads.values()
            if holds_quota(workload)
        }
        for key, workload in self._workloads.items():
            if f"{key.namespace}/{key.name}" in replaced:
                continue
            if holds_quota(workload) and objects.nested(workload, "status", "admission")["clusterQueue"] in names:
                total.update(usage_of(workload))
        return total

    def waits_for_pods(self) -> bool:
        """Whether a pod group waits for pods, or did a moment ago."""
        is_recent = self._clock.now_ns() - self._waited_for_pods_ns < QUOTA_GRACE_NS
        return is_recent or any(_waits_for_pods(workload) for workload in self._workloads.values())

    # Owners

    def check_owners(self) -> None:
        """No Workload stays long after its owner. Called every now and then."""
        now_ns = self._clock.now_ns()
        orphans = {key: None for key, workload in self._workloads.items() if self._is_orphan(workload)}
        self._orphaned_ns = {key: self._orphaned_ns.get(key, now_ns) for key in orphans}
        for key, since_ns in self._orphaned_ns.items():
            if now_ns - since_ns > GRACE_NS:
                self.report(f"{key} outlives its owner since {(now_ns - since_ns) // SECOND_NS} s")
                self._orphaned_ns = {}
                return

    def _is_orphan(self, workload: Object) -> bool:
        owners = objects.owner_references(workload)
        return bool(owners) and not any(owner["uid"] in self._by_uid for owner in owners)

    # Pods

    def _pod_changed(self, key: StoreKey, pod: Object, *, is_deleted: bool) -> None:
        owner = objects.controller_of(pod)
        if owner is None or owner["kind"] != "Job":
            return
        pods = self._pods_of[owner["uid"]]
        is_new = key not in pods
        pods.pop(key, None)
        if is_deleted or objects.is_deleted(pod) or objects.status(pod).get("phase") in ("Succeeded", "Failed"):
            return
        pods[key] = pod
        if is_new:
            self._check_pods(owner, pods)

    def _check_pods(self, owner: Object, pods: dict[StoreKey, Object]) -> None:
        indexes = Counter(objects.annotations(pod).get(_INDEX) for pod in pods.values())
        for index, count in indexes.items():
            if index is not None and count > 1:
                self.report(f"index {index} of Job {owner['name']} runs {count} times")
        most = self._most_pods.get(owner["uid"], 1)
        if len(pods) > most:
            self.report(f"Job {owner['name']} runs {len(pods)} pods, its parallelism was at most {most}")

    def container_started(self, process: SimulatedProcess) -> None:
        self._trace.add("start", process.id)
        pod = process.pod
        self._starts[process.id] += 1
        if self._starts[process.id] > 1:
            self.report(f"{process.id} of {objects.name(pod)} started twice")
        uids = [objects.uid(pod), *self._ancestors(pod)]
        admitted_ns = max((self._last_admitted_ns.get(uid, -1) for uid in uids), default=-1)
        if (
            self.started_by_user.isdisjoint(uids)
            and self.needs_admission(pod)
            and self._clock.now_ns() - admitted_ns > GRACE_NS
            and not self.is_admitted(pod)
        ):
            self.report(f"{objects.name(pod)} runs without an admission")

    def is_admitted(self, pod: Object) -> bool:
        """Whether the Workload of the pod, or of one of its owners, is admitted now."""
        uids = {objects.uid(pod), *self._ancestors(pod)}
        return any(
            conditions.is_true(workload, "Admitted")
            and any(owner["uid"] in uids for owner in objects.owner_references(workload))
            for workload in self._workloads.values()
        )

    def _ancestors(self, obj: Object) -> list[str]:
        """The uids of all owners, each once: a user may let an object own itself."""
        uids: dict[str, None] = {}
        owners = list(objects.owner_references(obj))
        while owners:
            owner = owners.pop()
            if owner["uid"] in uids:
                continue
            uids[owner["uid"]] = None
            stored = self._objects.get(self._by_uid.get(owner["uid"], StoreKey("", "", "", "")))
            if stored is not None:
                owners += objects.owner_references(stored.shared_or_decoded())
        return list(uids)

    def needs_admission(self, pod: Object) -> bool:
        """Whether the pod or one of its owners is in a queue.

        Pods that an owner left behind run on without one.
        """
        stored = [
            self._objects[self._by_uid[uid]].shared_or_decoded() for uid in self._ancestors(pod) if uid in self._by_uid
        ]
        return any("kueue.x-k8s.io/queue-name" in objects.labels(obj) for obj in [pod, *stored])


def _preemptions(workload: Object) -> int:
    evictions = objects.nested(workload, "status", "schedulingStats").get("evictions") or ()
    return sum(eviction["count"] for eviction in evictions if eviction["reason"] == "Preempted")


def _waits_for_pods(workload: Object) -> bool:
    return conditions.is_true(workload, "WaitingForReplacementPods")


def holds_quota(workload: Object) -> bool:
    """Kueue counts a deactivated Workload no longer, although its pods may still run.

    The parent of concurrent admission shows the admission of a variant, and the variant counts.
    """
    is_over = conditions.is_true(workload, "Finished") or not objects.spec(workload).get("active", True)
    return conditions.is_true(workload, "QuotaReserved") and not is_over and not variants.is_parent(workload)


def usage_of(workload: Object) -> Counter[FlavorResource]:
    """What the admission of a Workload uses, without the pods that need it no longer.

    An elastic job that shrinks is resized in its spec, and its admission stays as it was.
    """
    total: Counter[FlavorResource] = Counter()
    status = objects.status(workload)
    sizes = {pod_set["name"]: int(pod_set.get("count", 1)) for pod_set in objects.spec(workload)["podSets"]}
    reclaimable = {pods["name"]: int(pods["count"]) for pods in status.get("reclaimablePods") or ()}
    for assignment in objects.nested(status, "admission").get("podSetAssignments") or ():
        count = int(assignment["count"])
        size = min(count, sizes.get(assignment["name"], count))
        left = size - min(reclaimable.get(assignment["name"], 0), size)
        for resource, flavor in (assignment.get("flavors") or {}).items():
            total[flavor, resource] += (
                quantity.parse(assignment["resourceUsage"][resource]).milli() * left // max(count, 1)
            )
    return total


def _quotas(queue: Object) -> Iterator[tuple[FlavorResource, Object]]:
    for group in objects.spec(queue).get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                yield (flavor["name"], resource["name"]), resource


def _limits(queue: Object) -> dict[FlavorResource, int]:
    """What a queue may use at most, where it has a limit of its own."""
    is_alone = not objects.spec(queue).get("cohortName")
    return {
        index: quantity.parse(quota["nominalQuota"]).milli() + quantity.parse(quota.get("borrowingLimit") or 0).milli()
        for index, quota in _quotas(queue)
        if is_alone or "borrowingLimit" in quota
    }


def _total(queues: Sequence[Object]) -> Counter[FlavorResource]:
    total: Counter[FlavorResource] = Counter()
    for queue in queues:
        for index, quota in _quotas(queue):
            total[index] += quantity.parse(quota["nominalQuota"]).milli()
    return total
