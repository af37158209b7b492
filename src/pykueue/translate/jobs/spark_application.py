"""SparkApplication (sparkoperator.k8s.io): a driver and its executors.

Neither has a pod template: the operator makes pods from the fields of `driver` and `executor`. The
templates for quota are made here in the same way, and the pod set infos of an admission are
written into those fields.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pykueue.api import objects
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
from pykueue.translate.jobs.framework import JobFramework, JobOptions, JobResult, PodSetTemplate
from pykueue.translate.pod_set_info import PodSetInfo

ROLES = ("driver", "executor")
_DONE = ("COMPLETED", "FAILED", "SUBMISSION_FAILED")
_JAVA_MEMORY = re.compile(r"(\d+)([kmgtp])b?", re.IGNORECASE)


def _pod_set_templates(job: Object, _options: JobOptions) -> list[PodSetTemplate]:
    counts = {"driver": 1, "executor": int(job["spec"]["executor"].get("instances") or 0)}
    return [
        PodSetTemplate(
            name=role, template_path=("spec", role, "template"), count=counts[role], template=_template(job, role)
        )
        for role in ROLES
    ]


def _template(job: Object, role: str) -> Object:
    """The pod template that the operator would make, as far as quota and topology need it."""
    fields = job["spec"][role]
    base = copy.deepcopy(fields.get("template") or {})
    spec = base.get("spec") or {}
    containers = spec.get("containers") or [{"name": f"spark-kubernetes-{role}"}]
    _set_resources(_spark_container(containers, role), fields)
    spec["containers"] = [*containers, *_missing(containers, fields.get("sidecars"))]
    init_containers = [*(spec.get("initContainers") or ())]
    init_containers += _missing(init_containers, fields.get("initContainers"))
    optional: dict[str, Any] = {
        "initContainers": init_containers,
        "nodeSelector": {**(spec.get("nodeSelector") or {}), **(fields.get("nodeSelector") or {})},
        "tolerations": [*(spec.get("tolerations") or ()), *(fields.get("tolerations") or ())],
        "affinity": fields.get("affinity") or spec.get("affinity"),
        "priorityClassName": fields.get("priorityClassName") or spec.get("priorityClassName"),
    }
    metadata = base.get("metadata") or {}
    for name in ("labels", "annotations"):
        if merged := {**(metadata.get(name) or {}), **(fields.get(name) or {})}:
            metadata[name] = merged
    return {"metadata": metadata, "spec": {**spec, **{name: value for name, value in optional.items() if value}}}


def _spark_container(containers: list[Object], role: str) -> Object:
    named = (container for container in containers if container.get("name") == f"spark-kubernetes-{role}")
    return next(named, containers[0])


def _missing(present: Sequence[Object], added: Sequence[Object] | None) -> list[Object]:
    present_keys = {(container.get("name"), container.get("image")) for container in present}
    return [
        container for container in added or () if (container.get("name"), container.get("image")) not in present_keys
    ]


def _set_resources(container: Object, fields: Mapping[str, Any]) -> None:
    resources = container.setdefault("resources", {})
    gpu = fields.get("gpu") or {}
    amounts = (
        ("requests", "cpu", fields.get("coreRequest")),
        ("requests", "memory", _kubernetes_memory(fields.get("memory"))),
        ("limits", "cpu", fields.get("coreLimit")),
        ("limits", "memory", _kubernetes_memory(fields.get("memoryLimit"))),
        ("limits", gpu.get("name", ""), str(gpu["quantity"]) if int(gpu.get("quantity") or 0) > 0 else None),
    )
    for section, name, amount in amounts:
        if name and amount is not None:
            resources.setdefault(section, {})[name] = str(amount)


def _kubernetes_memory(text: str | None) -> str | None:
    """Converts Java's notation to Kubernetes': `512m` becomes `512Mi`."""
    match = _JAVA_MEMORY.fullmatch(text or "")
    if match is None:
        return text
    unit = match[2].lower()
    return f"{match[1]}{'K' if unit == 'k' else unit.upper()}i"


def _inject(job: Object, _templates: Sequence[PodSetTemplate], infos: Sequence[PodSetInfo]) -> None:
    shared = job["spec"].pop("nodeSelector", None)
    for role, info in zip(ROLES, infos, strict=True):
        fields = job["spec"][role]
        _write(fields, role, _current_info(fields, shared).merged(info))


def _eject(job: Object, _templates: Sequence[PodSetTemplate], infos: Sequence[PodSetInfo]) -> None:
    job["spec"].pop("nodeSelector", None)
    for role, info in zip(ROLES, infos, strict=True):
        _write(job["spec"][role], role, info)
    job["spec"]["executor"]["instances"] = infos[1].count


def _current_info(fields: Object, shared_selector: Mapping[str, str] | None) -> PodSetInfo:
    gates = objects.nested_list(fields, "template", "spec", "schedulingGates")
    return PodSetInfo(
        annotations=fields.get("annotations") or {},
        labels=fields.get("labels") or {},
        node_selector=shared_selector or fields.get("nodeSelector") or {},
        tolerations=tuple(fields.get("tolerations") or ()),
        scheduling_gates=tuple(gates),
    )


def _write(fields: Object, role: str, info: PodSetInfo) -> None:
    """Gates need a template, and the API refuses one without containers."""
    written: dict[str, Any] = {
        "annotations": dict(info.annotations),
        "labels": dict(info.labels),
        "nodeSelector": dict(info.node_selector),
        "tolerations": list(info.tolerations),
    }
    for name, value in written.items():
        if value:
            fields[name] = value
        else:
            fields.pop(name, None)
    if info.scheduling_gates:
        spec = fields.setdefault("template", {}).setdefault("spec", {})
        spec.setdefault("containers", [{"name": f"spark-kubernetes-{role}"}])
        spec["schedulingGates"] = list(info.scheduling_gates)
    elif objects.nested(fields, "template", "spec"):
        fields["template"]["spec"].pop("schedulingGates", None)


def _state(job: Object) -> str:
    return str(objects.nested(job, "status", "applicationState").get("state", ""))


def _finished(job: Object) -> JobResult | None:
    state = _state(job)
    if state not in _DONE:
        return None
    message = str(job["status"]["applicationState"].get("errorMessage", ""))
    return JobResult(is_success=state == "COMPLETED", message=message)


def _pods_ready(job: Object) -> bool:
    """Whether the driver and all executors run; the driver is RUNNING before its executors."""
    states = objects.nested(job, "status", "executorState").values()
    ready = sum(state in ("RUNNING", "COMPLETED") for state in states)
    return _state(job) == "RUNNING" and ready >= int(job["spec"]["executor"].get("instances") or 0)


FRAMEWORK = JobFramework(
    description=job_kinds.SPARK_APPLICATION,
    pod_set_templates=_pod_set_templates,
    finished=_finished,
    is_active=lambda job: _state(job) == "RUNNING",
    pods_ready=_pods_ready,
    inject=_inject,
    eject=_eject,
)
