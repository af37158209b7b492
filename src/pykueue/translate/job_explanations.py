"""What `pykueue explain` says about a job: from pending, over admitted and running, to finished.

Pure: `JobFacts` holds the objects that belong to a job, and `report` makes the text. Quota and
remedies come from the engine's `Explanation`. Called by `controllers.scheduler.job_facts`, which
reads the objects.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykueue.api import conditions, labels, objects, task_indexes, times
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.engine.explain.explanation import Explanation, Obstacle, PodSetFit, Standing
from pykueue.translate import amounts, explanations, failure_causes, messages, node_capacity, nodes, outcomes

_MISSPELLED_QUEUE_LABEL = "kueue.x-k8s.io/queue"
_MAX_NAMES = 8
_MAX_NODES = 5
_START_FAILURES = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
_LONGEST_MESSAGE = 4096
_PREEMPTOR = re.compile(r"a workload \(UID: ([^,]*), JobUID: [^)]*\)")


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that belong to one job.

    `existing` has the names of queues and classes, by kind, of the kinds that could be read.
    """

    title: str
    """For example `Job default/train`."""
    namespace: str
    now_ns: int
    job: Object | None = None
    workload: Object | None = None
    explanation: Explanation | None = None
    pods: tuple[Object, ...] = ()
    nodes: tuple[Object, ...] | None = None
    """None if the nodes cannot be read."""
    free: tuple[node_capacity.Amounts, ...] | None = None
    """What is free on each node; None if that is not known or does not matter."""
    warnings: tuple[str, ...] = ()
    """Warning events about the job, the newest first."""
    target_queue: str = ""
    """The ClusterQueue that its LocalQueue names, whether it exists or not."""
    cluster_queue: Object | None = None
    admission_checks: tuple[Object, ...] = ()
    """Those of its cluster queue."""
    existing: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Names by kind: LocalQueue (of the namespace), ClusterQueue, ResourceFlavor, and others."""
    waits_for: tuple[tuple[str, bool], ...] = ()
    """Of each Job that it waits for (`--after`) what is missing, and whether that is for ever."""
    workload_names: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Workloads by UID, to name the one that preempted."""


class JobReport(msgspec.Struct, frozen=True, kw_only=True):
    state: str
    summary: str
    lines: tuple[str, ...] = ()
    """What follows the summary."""
    output_pod: str = ""
    """The pod whose last lines of output are shown: the failed one, or the last that ended."""

    def text(self) -> Iterator[str]:
        yield self.summary
        yield from self.lines


def report(facts: JobFacts) -> JobReport:
    if facts.waits_for:
        return _waits_for_jobs(facts)
    if facts.workload is None:
        return _without_workload(facts)
    finished = conditions.find(facts.workload, "Finished")
    if conditions.has_status_true(finished):
        return _finished(facts, facts.workload, finished or {})
    if facts.explanation is None:
        return JobReport(state="unknown", summary=f"{facts.title} is not known to the scheduler yet.")
    if facts.explanation.standing is Standing.ADMITTED:
        return _admitted(facts, facts.explanation)
    if facts.explanation.standing is Standing.RESERVED:
        checks = tuple(_checks(facts.workload))
        return JobReport(state="quota reserved", summary=explanations.headline(facts.explanation), lines=("", *checks))
    return _pending(facts, facts.workload, facts.explanation)


def as_json(facts: JobFacts, answer: JobReport) -> dict[str, Any]:
    """The fields of the API object and of `pykueue explain -o json`."""
    engine = {} if facts.explanation is None else explanations.as_json(facts.explanation)
    return {
        **engine,
        "job": facts.title,
        "state": answer.state,
        "summary": answer.summary,
        "lines": list(answer.lines),
        "outputPod": answer.output_pod,
    }


# Before the workload exists.


def _waits_for_jobs(facts: JobFacts) -> JobReport:
    """A Job that `pykueue submit --after` keeps out of its queue until others have ended."""
    texts = "; ".join(text for text, _ in facts.waits_for)
    if not any(is_final for _, is_final in facts.waits_for):
        return JobReport(state="waiting for jobs", summary=f"{facts.title} waits for other jobs: {texts}.")
    remedy = f"Delete it, or remove {labels.AFTER} from its annotation {labels.ADMISSION_GATED_BY}."
    return JobReport(state="not queued", summary=f"{facts.title} can never start: {texts}.", lines=(remedy,))


def _without_workload(facts: JobFacts) -> JobReport:
    job_labels = {} if facts.job is None else objects.labels(facts.job)
    queue, priority = job_labels.get(labels.QUEUE_NAME, ""), job_labels.get(labels.PRIORITY_CLASS, "")
    if not queue:
        why = f"it has no label {labels.QUEUE_NAME}"
        if _MISSPELLED_QUEUE_LABEL in job_labels:
            why += f"; its label {_MISSPELLED_QUEUE_LABEL} has no meaning"
        return _not_queued(facts, why + _unqueued_state(facts.job or {}))
    pod_priority = "" if priority else _pod_priority_class(facts.job)
    for kind, name in (("WorkloadPriorityClass", priority), ("PriorityClass", pod_priority)):
        classes = facts.existing.get(kind)
        if name and classes is not None and name not in classes:
            return _not_queued(facts, f"{kind} {name} does not exist{_names(classes)}")
    if queue not in facts.existing.get("LocalQueue", (queue,)):
        return _not_queued(facts, _missing_local_queue(facts, queue))
    if group := _incomplete_group(facts):
        return _not_queued(facts, group)
    prebuilt = job_labels.get(labels.PREBUILT_WORKLOAD_NAME, "")
    if prebuilt:
        return _not_queued(
            facts, f"Workload {prebuilt}, which its label {labels.PREBUILT_WORKLOAD_NAME} names, does not exist"
        )
    return _not_queued(facts, facts.warnings[0] if facts.warnings else "its Workload does not exist yet")


def _incomplete_group(facts: JobFacts) -> str:
    """How many pods of its group a pod waits for; "" if it waits for none."""
    name = objects.labels(facts.job or {}).get(labels.POD_GROUP_NAME, "")
    total = objects.annotations(facts.job or {}).get(labels.POD_GROUP_TOTAL_COUNT, "")
    if not name or not total.isdecimal() or len(facts.pods) >= int(total):
        return ""
    return f"its group {name} has {len(facts.pods)} of {total} pods"


def _unqueued_state(job: Object) -> str:
    """How a job ended that no queue held back; "" if it did not end."""
    for condition_type, outcome in (("Complete", "is complete"), ("Failed", "failed")):
        if conditions.is_true(job, condition_type):
            return f"; it {outcome}"
    return ""


def _pod_priority_class(value: Any) -> str:
    """The first `priorityClassName` in the pod templates of a job of any kind."""
    if isinstance(value, dict) and isinstance(value.get("priorityClassName"), str):
        return str(value["priorityClassName"])
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((name for item in items if (name := _pod_priority_class(item))), "")


def _not_queued(facts: JobFacts, why: str) -> JobReport:
    lines = tuple(f"Event: {warning}" for warning in facts.warnings[:3] if warning not in why)
    return JobReport(state="not queued", summary=f"{facts.title} is in no queue: {why}.", lines=lines)


def _missing_local_queue(facts: JobFacts, name: str) -> str:
    existing = _names(facts.existing.get("LocalQueue", ()))
    return f"LocalQueue {name} does not exist in namespace {facts.namespace}{existing}"


def _names(names: tuple[str, ...]) -> str:
    if not names:
        return " (there are none)"
    return f" (existing: {_listed(names)})"


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more}" or "none"


# Pending.


def _pending(facts: JobFacts, workload: Object, explanation: Explanation) -> JobReport:
    is_outside = explanation.standing is Standing.OUTSIDE
    summary = _outside(facts, workload, explanation) if is_outside else explanations.headline(explanation)
    first = [line for line in (_never(facts, explanation), _inactive(facts, explanation)) if line]
    shortage = node_capacity.shortage(explanation.workload, facts.free)
    note = f"its pods would still wait: {shortage}" if shortage else ""
    details = explanations.details(explanation, now_ns=facts.now_ns, quota_note=note)
    return JobReport(
        state="in no queue" if is_outside else "pending",
        summary=summary,
        lines=(*first, *details, *_eviction(facts, workload), *_failed_checks(workload)),
    )


def _outside(facts: JobFacts, workload: Object, explanation: Explanation) -> str:
    head = f"Workload {explanation.workload.key} is in no queue: "
    name = str(objects.spec(workload).get("queueName", ""))
    match explanation.obstacle:
        case Obstacle.LOCAL_QUEUE_MISSING:
            return f"{head}{_missing_local_queue(facts, name)}."
        case Obstacle.LOCAL_QUEUE_STOPPED:
            return f"{head}LocalQueue {name} is stopped."
        case Obstacle.CLUSTER_QUEUE_MISSING:
            existing = _names(facts.existing.get("ClusterQueue", ()))
            return f"{head}ClusterQueue {facts.target_queue} of LocalQueue {name} does not exist{existing}."
        case Obstacle.DEACTIVATED:
            target = conditions.find(workload, "Evicted") or {}
            because = f": {target['message']}" if target.get("message") else ""
            return f"{head}it is deactivated (spec.active is false){because}."
    return explanations.headline(explanation)


def _inactive(facts: JobFacts, explanation: Explanation) -> str:
    """Why its cluster queue admits nothing, in the words of the queue's own condition."""
    if not explanation.inactivity:
        return ""
    active = conditions.find(facts.cluster_queue or {}, "Active") or {}
    reasons = ", ".join(inactivity.reason.value for inactivity in explanation.inactivity)
    message = active.get("message") if active.get("status") == "False" else reasons
    text = f"ClusterQueue {explanation.cluster_queue} is not active: {message}"
    kinds = ("ResourceFlavor", "AdmissionCheck", "Topology")
    named = [kind for kind in kinds if kind in str(message)]
    for check in facts.admission_checks:
        condition = conditions.find(check, "Active")
        if condition is not None and condition["status"] == "False":
            text += f" AdmissionCheck {objects.name(check)}: {condition.get('message', '').removesuffix('.')}."
    return text + "".join(f" {kind}s that exist: {_listed(facts.existing.get(kind, ()))}." for kind in named)


def _never(facts: JobFacts, explanation: Explanation) -> str:
    """Which requests no wait can satisfy: beyond what the queue or any node may have."""
    parts = [part for pod_set in explanation.pod_sets for part in _impossible(facts, explanation, pod_set)]
    return f"It can never start as things are: {'; '.join(parts)}." if parts else ""


def _impossible(facts: JobFacts, explanation: Explanation, pod_set: PodSetFit) -> Iterator[str]:
    for resource in pod_set.undeclared:
        yield (
            f"it asks for {resource}, which ClusterQueue {explanation.cluster_queue} does not cover"
            f" (covered: {', '.join(explanation.covered) or 'nothing'})"
        )
    for resource, amount in pod_set.requests.items():
        fits = [
            fit
            for flavor in pod_set.flavors
            if flavor.mismatch is None
            for fit in flavor.resources
            if fit.resource == resource
        ]
        lacks_nodes = resource in _too_large_for_nodes(facts, explanation, pod_set.name)
        if fits and (lacks_nodes or all(fit.requested > fit.capacity for fit in fits)):
            capacity = max(fit.capacity for fit in fits)
            text = (
                f"it asks for {amounts.to_text(resource, amount)} {resource}, ClusterQueue {explanation.cluster_queue}"
            )
            text += f" may have {messages.amount(resource, capacity, outcomes.amount_text)}"
            largest = _largest(facts.nodes, resource)
            yield text if largest is None else f"{text}, the largest node has {amounts.to_text(resource, largest)}"


def _never_on_a_node(facts: JobFacts, explanation: Explanation) -> str:
    """Which requests of the pods of an admitted workload are larger than any node."""
    parts = [
        f"it asks for {amounts.to_text(resource, pod_set.pod_requests[resource])} {resource}"
        f" in each pod, the largest node has {amounts.to_text(resource, _largest(facts.nodes, resource) or 0)}"
        for pod_set in explanation.workload.pod_sets
        for resource in _too_large_for_nodes(facts, explanation, pod_set.name)
    ]
    return f"It can never start as things are: {'; '.join(parts)}." if parts else ""


def _too_large_for_nodes(facts: JobFacts, explanation: Explanation, name: str) -> list[values.ResourceName]:
    """The resources of which one pod of a pod set asks for more than any node has."""
    if may_get_nodes(facts.cluster_queue):
        return []
    return [
        resource
        for pod_set in explanation.workload.pod_sets
        if pod_set.name == name
        for resource, amount in pod_set.pod_requests.items()
        if (largest := _largest(facts.nodes, resource)) is not None and amount > largest
    ]


def _largest(nodes: tuple[Object, ...] | None, resource: str) -> int | None:
    """The largest amount of a resource on one node; None if there are no nodes to compare."""
    if not nodes:
        return None
    return max(node_capacity.allocatable(node).get(resource, 0) for node in nodes)


def may_get_nodes(cluster_queue: Object | None) -> bool:
    """An admission check may provide larger nodes."""
    spec = objects.spec(cluster_queue or {})
    return bool(spec.get("admissionChecksStrategy") or spec.get("admissionChecks"))


def _eviction(facts: JobFacts, workload: Object) -> Iterator[str]:
    """The last eviction, once, with the name of the preemptor; and when it is tried again."""
    for kind in ("Preempted", "Evicted"):
        condition = conditions.find(workload, kind)
        if condition is not None and conditions.has_status_true(condition):
            message = _PREEMPTOR.sub(lambda match: _preemptor(facts, match[1]), condition["message"][:_LONGEST_MESSAGE])
            age = explanations.age(facts.now_ns - conditions.since_ns(condition))
            yield ""
            yield f"{kind} {age} ago: {message}"
            break
    requeue_at = objects.nested(workload, "status", "requeueState").get("requeueAt")
    if requeue_at and times.to_ns(requeue_at) > facts.now_ns:
        wait = explanations.age(times.to_ns(requeue_at) - facts.now_ns)
        yield f"It is tried again at {requeue_at} (in {wait})."


def _preemptor(facts: JobFacts, uid: str) -> str:
    name = facts.workload_names.get(uid, f"(UID: {uid})")
    return name if name == explanations.ELSEWHERE else f"workload {name}"


def _checks(workload: Object) -> Iterator[str]:
    for check in objects.nested_list(workload, "status", "admissionChecks"):
        message = f": {check['message']}" if check.get("message") else ""
        yield f"AdmissionCheck {check['name']} is {check['state']}{message}"


def _failed_checks(workload: Object) -> list[str]:
    checks = objects.nested_list(workload, "status", "admissionChecks")
    return list(_checks(workload)) if any(check["state"] in ("Retry", "Rejected") for check in checks) else []


# Admitted.


def _admitted(facts: JobFacts, explanation: Explanation) -> JobReport:
    headline = explanations.headline(explanation)
    never = [
        f"{line} It uses quota nevertheless: delete it." for line in (_never_on_a_node(facts, explanation),) if line
    ]
    for state, problem in (("unschedulable", _unschedulable), ("failing to start", _start_failures)):
        lines = list(problem(facts))
        if lines:
            pod = next((objects.name(pod) for pod in facts.pods if _restarts(pod)), "")
            text = headline.removesuffix(".")
            lines += (f"Event: {warning}" for warning in facts.warnings[:3])
            return JobReport(state=state, summary=f"{text}, but {lines[0]}", lines=(*never, *lines[1:]), output_pod=pod)
    running = [pod for pod in facts.pods if objects.status(pod).get("phase") == "Running"]
    if running:
        counted = f"{len(running)} of {len(facts.pods)} pods running"
        admitted_ns = conditions.transition_ns(conditions.find(facts.workload or {}, "Admitted"))
        age = "" if admitted_ns is None else f", admitted {explanations.age(facts.now_ns - admitted_ns)} ago"
        summary = f"{facts.title} is running: {counted}{age}."
        return JobReport(state="running", summary=summary, lines=(headline,))
    lines = [f"Event: {warning}" for warning in facts.warnings[:3]]
    replacing = conditions.find(facts.workload or {}, "WaitingForReplacementPods")
    if conditions.has_status_true(replacing):
        return _replacing(facts, headline, lines)
    if not facts.pods:
        lines = [_without_pods(facts.job or {}, facts.workload or {}), *lines]
    return JobReport(state="admitted", summary=headline, lines=(*never, *lines))


def _replacing(facts: JobFacts, headline: str, lines: list[str]) -> JobReport:
    """A group whose failed pods somebody has to create again."""
    summary = f"{headline.removesuffix('.')}, but pods of its group ended: it waits for pods that replace them."
    ended = failure_causes.last_end(facts.pods, has_failed=True)
    pod = "" if ended is None else objects.name(ended[0])
    if ended is not None:
        lines = [f"Exit code {ended[2].get('exitCode')} of container {ended[1]} in pod {pod}", *lines]
    return JobReport(state="failing to start", summary=summary, lines=tuple(lines), output_pod=pod)


def _without_pods(job: Object, workload: Object) -> str:
    if cluster := objects.status(workload).get("clusterName"):
        return f"Its pods are in MultiKueueCluster {cluster}."
    manager = objects.spec(job).get("managedBy", "")
    if manager in ("", "kubernetes.io/job-controller"):
        return "It has no pods yet."
    return f"It has no pods: its spec.managedBy leaves them to {manager}."


def _unschedulable(facts: JobFacts) -> Iterator[str]:
    waiting = [pod for pod in facts.pods if is_without_node(pod)]
    if not waiting:
        return
    scheduled = conditions.find(waiting[0], "PodScheduled") or {}
    message = scheduled.get("message", "")
    if facts.nodes is not None and not facts.nodes:
        message = "the cluster has no nodes, so nothing runs its pods (`pykueue up --runtime process` runs them)"
    if not message:
        return
    yield f"{len(waiting)} of {len(facts.pods)} pods cannot be scheduled: {message}"
    requests = nodes.pod_requests(objects.spec(waiting[0]))
    for number, node in enumerate((facts.nodes or ())[:_MAX_NODES]):
        if lacking := _lacking(requests, node_capacity.allocatable(node)):
            yield f"  node {objects.name(node)} is too small: it has {lacking}"
        elif facts.free and (lacking := _lacking(requests, facts.free[number])):
            yield f"  node {objects.name(node)} is in use: it has {lacking} left"


def _lacking(requests: Mapping[values.ResourceName, int], offered: node_capacity.Amounts) -> str:
    return ", ".join(
        f"{name} {amounts.to_text(name, offered.get(name, 0))} of {amounts.to_text(name, amount)}"
        for name, amount in requests.items()
        if amount > offered.get(name, 0)
    )


def is_without_node(pod: Object) -> bool:
    spec = objects.spec(pod)
    is_pending = objects.status(pod).get("phase", "Pending") == "Pending"
    return is_pending and not spec.get("nodeName") and not spec.get("schedulingGates")


def _restarts(pod: Object) -> int:
    return sum(int(status.get("restartCount", 0)) for status in failure_causes.statuses(pod))


def _start_failures(facts: JobFacts) -> Iterator[str]:
    for pod in facts.pods:
        for status in failure_causes.statuses(pod):
            waiting = objects.nested(status, "state", "waiting")
            if waiting.get("reason") in _START_FAILURES:
                restarts = f", {status['restartCount']} restarts" if status.get("restartCount") else ""
                exited = objects.nested(status, "lastState", "terminated")
                code = f", last exit code {exited['exitCode']}" if "exitCode" in exited else ""
                name = f"container {status['name']} of pod {objects.name(pod)}"
                message = f": {waiting['message']}" if waiting.get("message") else ""
                yield f"{name} is in {waiting['reason']}{restarts}{code}{message}"


# Finished.


def _finished(facts: JobFacts, workload: Object, condition: Object) -> JobReport:
    finished_ns = conditions.since_ns(condition)
    has_failed = condition.get("reason") != "Succeeded"
    outcome = "failed" if condition.get("reason") == "Failed" else "succeeded"
    if condition.get("reason") not in ("Failed", "Succeeded"):
        outcome = f"finished ({condition.get('reason')})"
    spent = f" {_durations(workload, finished_ns)}"
    summary = f"{facts.title} {outcome}{spent}, {explanations.age(facts.now_ns - finished_ns)} ago."
    lines = [f"Message: {condition['message']}"] if condition.get("message") else []
    ended = failure_causes.last_end(facts.pods, has_failed=has_failed)
    if ended is not None:
        pod, container, exited = ended
        index = task_indexes.of_pod(task_indexes.of_job(facts.job or {}), pod)
        name = objects.name(pod) if index is None else f"{objects.name(pod)} (index {index})"
        message = f": {exited['message']}" if exited.get("message") else ""
        is_plain = exited.get("reason") in (None, "", "Error", "Completed")
        reason = "" if is_plain else f" ({exited['reason']})"
        lines.append(f"Exit code {exited.get('exitCode')}{reason} of container {container} in pod {name}{message}")
    output_pod = "" if ended is None else objects.name(ended[0])
    return JobReport(state="finished", summary=summary, lines=tuple(lines), output_pod=output_pod)


def _durations(workload: Object, finished_ns: int) -> str:
    created_ns = times.to_ns(workload["metadata"]["creationTimestamp"])
    admitted_ns = conditions.transition_ns(conditions.find(workload, "Admitted"))
    if admitted_ns is None:
        return f"after {explanations.age(finished_ns - created_ns)}"
    waited = explanations.age(admitted_ns - created_ns)
    return f"after {explanations.age(finished_ns - admitted_ns)} (waited {waited})"
