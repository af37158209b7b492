"""AppWrapper (workload.codeflare.dev): one pod set
for each pod template inside the wrapped objects.

The templates belong to objects that do not exist yet, so nothing is merged into them. The node
selectors and tolerations of an admission are written to `podSetInfos`, and the AppWrapper's own
controller applies them when it creates the objects.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from pykueue.api import conditions, objects
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
from pykueue.translate.jobs.framework import (
    JobFramework,
    JobOptions,
    JobResult,
    Path,
    PodSetTemplate,
    value_at,
)
from pykueue.translate.pod_set_info import PodSetInfo

_ANNOTATION = "workload.codeflare.dev.appwrapper/tas-"
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")

_POD_DEFAULTS = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "preemptionPolicy": "PreemptLowerPriority",
}
_POD_FIELDS = (
    *_POD_DEFAULTS,
    "nodeSelector",
    "nodeName",
    "affinity",
    "tolerations",
    "priorityClassName",
    "overhead",
    "topologySpreadConstraints",
)
_CONTAINER_DEFAULTS = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_CONTAINER_FIELDS = ("name", "image", "command", "args", "resources", "securityContext", *_CONTAINER_DEFAULTS)


def _pod_set_templates(job: Object, options: JobOptions) -> list[PodSetTemplate]:
    templates: list[PodSetTemplate] = []
    for component in range(len(job["spec"].get("components") or ())):
        root: Path = ("spec", "components", component, "template")
        for pod_set in _pod_sets(job, component, options):
            path = (*root, *_steps(pod_set["path"]))
            template = value_at(job, path)
            if not isinstance(template, dict) or "spec" not in template:
                continue
            annotations = pod_set.get("annotations") or {}
            sub_groups = annotations.get(f"{_ANNOTATION}sub-group-count", "")
            templates.append(
                PodSetTemplate(
                    name=f"{job['metadata']['name']}-{len(templates)}",
                    template_path=path,
                    count=int(pod_set.get("replicas", 1)),
                    template=_with_defaults(template),
                    pod_index_label=annotations.get(f"{_ANNOTATION}pod-index-label"),
                    sub_group_index_label=annotations.get(f"{_ANNOTATION}sub-group-index-label"),
                    sub_group_count=int(sub_groups) if sub_groups.isdigit() else None,
                )
            )
    return templates


def _pod_sets(job: Object, component: int, options: JobOptions) -> list[Object]:
    """The pod sets of the component's status, else declared ones, else those of its kind."""
    observed = value_at(job, ("status", "componentStatus", component, "podSets"))
    declared = value_at(job, ("spec", "components", component, "declaredPodSets"))
    return list(
        observed or declared or _inferred(value_at(job, ("spec", "components", component, "template")), options)
    )


def _inferred(wrapped: Object, options: JobOptions) -> Iterator[Object]:
    from pykueue.translate.jobs import registry  # the registry imports this module

    for framework in registry.FRAMEWORKS.values():
        resource = framework.resource
        if framework.dependency is not None:
            continue
        if (wrapped.get("apiVersion"), wrapped.get("kind")) == (resource.api_version, resource.kind):
            for template in framework.pod_set_templates(wrapped, options):
                labels = {
                    "pod-index-label": template.pod_index_label,
                    "sub-group-index-label": template.sub_group_index_label,
                    "sub-group-count": template.sub_group_count,
                }
                yield {
                    "replicas": template.count,
                    "path": "template" + "".join(_step_text(step) for step in template.template_path),
                    "annotations": {f"{_ANNOTATION}{name}": str(value) for name, value in labels.items() if value},
                }


def _steps(path: str) -> Path:
    """Parses a path such as `template.spec.replicatedJobs[0].template`; drops its first step."""
    return tuple(name or int(index) for name, index in _STEP.findall(path.removeprefix("template")))


def _step_text(step: str | int) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def _with_defaults(template: Object) -> Object:
    """The fields that matter for quota, with the defaults that an API server would set."""
    spec = template["spec"]
    defaulted: dict[str, Any] = {
        **_POD_DEFAULTS,
        **{name: spec[name] for name in _POD_FIELDS if spec.get(name) is not None},
    }
    if "terminationGracePeriodSeconds" not in spec:
        defaulted["terminationGracePeriodSeconds"] = 30
    for field in ("initContainers", "containers"):
        if spec.get(field):
            defaulted[field] = [_container_with_defaults(container) for container in spec[field]]
    metadata = template.get("metadata") or {}
    labels = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    return {"metadata": labels, "spec": defaulted}


def _container_with_defaults(container: Object) -> Object:
    fields = {name: container[name] for name in _CONTAINER_FIELDS if container.get(name) is not None}
    pull = container.get("imagePullPolicy") or ("Always" if _is_latest(container.get("image", "")) else "IfNotPresent")
    return {**_CONTAINER_DEFAULTS, **fields, "imagePullPolicy": pull}


def _is_latest(image: str) -> bool:
    if not image or "@" in image:
        return False
    _, _, tag = image.rpartition("/")[2].partition(":")
    return tag in ("", "latest")


def _inject(job: Object, templates: Sequence[PodSetTemplate], infos: Sequence[PodSetInfo]) -> None:
    for component, pairs in groupby(zip(templates, infos, strict=True), key=lambda pair: pair[0].template_path[2]):
        assert isinstance(component, int)
        job["spec"]["components"][component]["podSetInfos"] = [_as_json(info) for _, info in pairs]


def _eject(job: Object, _templates: Sequence[PodSetTemplate], _infos: Sequence[PodSetInfo]) -> None:
    for component in job["spec"].get("components") or ():
        component.pop("podSetInfos", None)


def _as_json(info: PodSetInfo) -> Object:
    fields: dict[str, Any] = {
        "annotations": dict(info.annotations),
        "labels": dict(info.labels),
        "nodeSelector": dict(info.node_selector),
        "tolerations": list(info.tolerations),
        "schedulingGates": list(info.scheduling_gates),
    }
    return {name: value for name, value in fields.items() if value}


def _finished(job: Object) -> JobResult | None:
    match objects.status(job).get("phase"):
        case "Succeeded":
            return JobResult(is_success=True, message="AppWrapper finished successfully")
        case "Failed" if not conditions.is_true(job, "ResourcesDeployed"):
            return JobResult(is_success=False, message="AppWrapper failed")
        case _:
            return None


FRAMEWORK = JobFramework(
    description=job_kinds.APP_WRAPPER,
    pod_set_templates=_pod_set_templates,
    finished=_finished,
    is_active=lambda job: conditions.is_true(job, "QuotaReserved"),
    pods_ready=lambda job: conditions.is_true(job, "PodsReady"),
    inject=_inject,
    eject=_eject,
)
