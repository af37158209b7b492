"""One sync of an AppWrapper: creates its components when it is resumed, deletes them when it is
suspended, starts them again after failures, and reports how its pods fare.

The phases are those of the AppWrapper operator:

    Suspended -> Resuming -> Running -> Succeeded
                    ^           |
                    +- Resetting+-> Failed          (and Suspending -> Suspended from each)

Components are objects of the AppWrapper's namespace. The admission plugin `wrapped_components`
has checked that whoever wrote the AppWrapper may create them.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pykueue.api import conditions, durations, objects, resources
from pykueue.api.rules.jobs import wrapped_kinds
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.cluster import pods, statuses
from pykueue.kube.controller import writes
from pykueue.translate.jobs.app_wrapper import FRAMEWORK
from pykueue.translate.jobs.framework import JobOptions, value_at

LABEL = "workload.codeflare.dev/appwrapper"
"""On the pods of an AppWrapper: its name."""
FindPods = Callable[[Object], Sequence[Object]]
FINAL_PHASES = ("Succeeded", "Failed")
_ANNOTATION = "workload.codeflare.dev.appwrapper/"
_FAILURE_GRACE_PERIOD = "1m"
_RETRY_PAUSE_PERIOD = "90s"
_RETRY_LIMIT = 3
_RECHECK_SECONDS = 1.0
_ALREADY_EXISTS = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class _PodCounts:
    expected: int
    ready: int
    succeeded: int
    failed: int
    existing: int

    @property
    def are_ready(self) -> bool:
        return self.ready + self.succeeded >= self.expected


def reconciler(find_pods: FindPods) -> Callable[[Object, list[Object], datetime], writes.Sync]:
    def sync(wrapper: Object, owned: list[Object], now: datetime) -> writes.Sync:
        if objects.is_deleted(wrapper) or objects.status(wrapper).get("phase") in FINAL_PHASES:
            return (yield from _delete_failed(wrapper, owned))
        return (yield from _Sync(wrapper, owned, find_pods(wrapper), now).run())

    return sync


def _delete_failed(wrapper: Object, owned: Sequence[Object]) -> writes.Sync:
    """The components of a failed AppWrapper are deleted; those of a successful one stay."""
    is_failed = objects.status(wrapper).get("phase") == "Failed" and not objects.is_deleted(wrapper)
    batch = list(_deletions(owned)) if is_failed else []
    results = (yield batch) if batch else []
    return writes.Done(errors=writes.refusals(results))


class _Sync:
    def __init__(self, wrapper: Object, owned: list[Object], wrapped_pods: Sequence[Object], now: datetime) -> None:
        self._wrapper = wrapper
        self._owned = owned
        self._now = now
        self._status = copy.deepcopy(objects.status(wrapper))
        self._pods = _counts(wrapper, wrapped_pods)
        self._batch: list[writes.Action] = []

    def run(self) -> writes.Sync:
        phase = self._status.get("phase") or "Suspended"
        if self._wrapper["spec"].get("suspend"):
            self._suspend(phase)
        elif phase in ("Suspended", "Suspending", "Resuming"):
            self._resume()
        elif phase == "Resetting":
            self._reset()
        else:
            self._watch()
        results = (yield self._batch) if self._batch else []
        errors = [error for error in writes.refusals(results) if getattr(error, "code", 0) != _ALREADY_EXISTS]
        refused = yield from statuses.write(resources.APP_WRAPPER, self._wrapper, self._status)
        pause = None if self._status["phase"] in ("Suspended", *FINAL_PHASES) else _RECHECK_SECONDS
        return writes.Done(requeue_after_ns=writes.after_seconds(pause), errors=(*errors, *refused))

    def _set(self, type_: str, status: str, reason: str, message: str) -> None:
        condition = {"type": type_, "status": status, "reason": reason, "message": message}
        self._status["conditions"] = conditions.replaced(self._status.get("conditions") or (), condition, self._now)

    def _suspend(self, phase: str) -> None:
        """Delete the components; quota is given back when the last pod is gone."""
        self._batch += _deletions(self._owned)
        if self._owned or self._pods.existing:
            self._status["phase"] = "Suspending"
            return
        self._status["phase"] = "Suspended"
        self._status.pop("componentStatus", None)
        if phase != "Suspended" or conditions.find(self._wrapper, "QuotaReserved") is None:
            self._set("QuotaReserved", "False", "Suspended", "")
            self._set("ResourcesDeployed", "False", "Suspended", "")
            self._set("PodsReady", "False", "Suspended", "")
            self._set("Unhealthy", "False", "Suspended", "")

    def _resume(self) -> None:
        self._status["phase"] = "Resuming"
        self._set("QuotaReserved", "True", "Resuming", "")
        self._set("ResourcesDeployed", "True", "Resuming", "")
        present = {(obj["kind"], objects.name(obj)) for obj in self._owned}
        components = [component_object(self._wrapper, index) for index in range(len(_components(self._wrapper)))]
        self._status["componentStatus"] = [_component_status(component) for component in components]
        missing = [obj for obj in components if (obj["kind"], objects.name(obj)) not in present]
        unwatched = {(obj["kind"], objects.name(obj)) for obj in components if not _is_watched(obj)}
        created = bool(objects.status(self._wrapper).get("componentStatus"))
        missing = [obj for obj in missing if not created or (obj["kind"], objects.name(obj)) not in unwatched]
        self._batch += [writes.Create(resource=_resource(obj), object=obj) for obj in missing]
        if not missing:
            self._status["phase"] = "Running"
            self._watch()

    def _watch(self) -> None:
        counts = self._pods
        self._status["phase"] = "Running"
        if counts.expected and counts.succeeded >= counts.expected:
            self._status["phase"] = "Succeeded"
            self._set("QuotaReserved", "False", "Succeeded", "")
            self._set("ResourcesDeployed", "True", "Succeeded", "")
            return
        message = f"{counts.ready} of {counts.expected} pods are ready, {counts.succeeded} succeeded"
        reason = "SufficientPodsReady" if counts.are_ready else "InsufficientPodsReady"
        self._set("PodsReady", "True" if counts.are_ready else "False", reason, message)
        if not counts.failed:
            self._set("Unhealthy", "False", "NoFailedPods", "")
            return
        self._set("Unhealthy", "True", "FoundFailedPods", f"{counts.failed} pods have failed")
        if self._is_over("Unhealthy", "failureGracePeriodDuration", _FAILURE_GRACE_PERIOD):
            self._fail_or_reset()

    def _fail_or_reset(self) -> None:
        retries = int(self._status.get("resettingCount", 0))
        if retries >= int(self._annotation("retryLimit", str(_RETRY_LIMIT))):
            self._status["phase"] = "Failed"
            self._set("QuotaReserved", "False", "Failed", "")
            self._set("ResourcesDeployed", "False", "Failed", "")
        else:
            self._status |= {"phase": "Resetting", "resettingCount": retries + 1}
            self._set("DeletingResources", "True", "Resetting", f"retry {retries + 1}")
        self._batch += _deletions(self._owned)

    def _reset(self) -> None:
        """Delete the components, and create them again after a pause."""
        self._batch += _deletions(self._owned)
        is_gone = not self._owned and not self._pods.existing
        if is_gone and self._is_over("DeletingResources", "retryPausePeriodDuration", _RETRY_PAUSE_PERIOD):
            self._status["phase"] = "Resuming"
            self._status.pop("componentStatus", None)
            self._set("DeletingResources", "False", "Resuming", "")
            self._set("Unhealthy", "False", "Resuming", "")

    def _annotation(self, name: str, default: str) -> str:
        return objects.annotations(self._wrapper).get(f"{_ANNOTATION}{name}", default)

    def _is_over(self, condition_type: str, annotation: str, default: str) -> bool:
        """Whether the condition has been true for the time of the annotation."""
        condition = conditions.find({"status": self._status}, condition_type)
        since_ns = conditions.transition_ns(condition) or 0
        try:
            period_ns = durations.to_ns(self._annotation(annotation, default))
        except ValueError:
            period_ns = durations.to_ns(default)
        return int(self._now.timestamp() * SECOND_NS) - since_ns >= period_ns


def _components(wrapper: Object) -> list[Object]:
    return objects.nested_list(wrapper, "spec", "components")


def _resource(obj: Object) -> Resource:
    resource = wrapped_kinds.resource_of(obj)
    assert resource is not None, "the admission plugin refuses other kinds"
    return resource


def _is_watched(obj: Object) -> bool:
    return _resource(obj) in wrapped_kinds.WATCHED


def component_object(wrapper: Object, index: int) -> Object:
    """The object of a component with what its admission adds to its pod templates."""
    obj: Object = copy.deepcopy(_components(wrapper)[index]["template"])
    metadata = obj.setdefault("metadata", {})
    metadata.setdefault("name", f"{objects.name(wrapper)}-{index}")
    metadata |= {
        "namespace": objects.namespace(wrapper),
        "labels": (metadata.get("labels") or {}) | {LABEL: objects.name(wrapper)},
        "ownerReferences": [objects.controller_reference(wrapper)],
    }
    infos = _components(wrapper)[index].get("podSetInfos") or ()
    templates = [
        entry for entry in FRAMEWORK.pod_set_templates(wrapper, JobOptions()) if entry.template_path[2] == index
    ]
    for number, entry in enumerate(templates):
        template = value_at(obj, entry.template_path[4:])
        if template is not None:
            _add_info(template, infos[number] if number < len(infos) else {}, objects.name(wrapper))
    return obj


def _add_info(template: Object, info: Object, name: str) -> None:
    metadata, spec = template.setdefault("metadata", {}), template.setdefault("spec", {})
    metadata["labels"] = (metadata.get("labels") or {}) | (info.get("labels") or {}) | {LABEL: name}
    for fields, key in ((metadata, "annotations"), (spec, "nodeSelector")):
        if info.get(key):
            fields[key] = (fields.get(key) or {}) | info[key]
    for key in ("tolerations", "schedulingGates"):
        if info.get(key):
            spec[key] = [*(spec.get(key) or ()), *info[key]]


def _component_status(obj: Object) -> Object:
    return {"name": objects.name(obj), "kind": obj["kind"], "apiVersion": obj["apiVersion"], "podSets": []}


def _deletions(owned: Iterable[Object]) -> Iterable[writes.Action]:
    return [
        writes.Delete(resource=_resource(obj), object=obj, propagation_policy="Foreground")
        for obj in owned
        if not objects.is_deleted(obj)
    ]


def _counts(wrapper: Object, wrapped_pods: Sequence[Object]) -> _PodCounts:
    phases = [pods.phase(pod) for pod in wrapped_pods if not objects.is_deleted(pod)]
    return _PodCounts(
        expected=sum(template.count for template in FRAMEWORK.pod_set_templates(wrapper, JobOptions())),
        ready=sum(pods.is_ready(pod) and not objects.is_deleted(pod) for pod in wrapped_pods),
        succeeded=phases.count("Succeeded"),
        failed=phases.count("Failed"),
        existing=sum(not pods.is_finished(pod) for pod in wrapped_pods),
    )
