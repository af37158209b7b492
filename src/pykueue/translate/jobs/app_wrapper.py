"""AppWrapper (workload.codeflare.dev): one pod set for each pod template inside the wrapped objects.

The templates belong to objects that do not exist yet, so nothing is merged into them: what an admission gives is handed over
in `podSetInfos`, and the AppWrapper's own controller applies it when it creates the objects.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from pykueue.api.scheme import Object, Resource
from pykueue.translate.jobs.framework import (
    JobFramework,
    JobOptions,
    JobResult,
    Path,
    PodSetTemplate,
    condition_true,
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


def _places(job: Object, options: JobOptions) -> list[PodSetTemplate]:
    places: list[PodSetTemplate] = []
    for component in range(len(job["spec"].get("components") or ())):
        root: Path = ("spec", "components", component, "template")
        for pod_set in _pod_sets(job, component, options):
            path = (*root, *_steps(pod_set["path"]))
            template = value_at(job, path)
            if not isinstance(template, dict) or "spec" not in template:
                continue
            annotations = pod_set.get("annotations") or {}
            sub_groups = annotations.get(f"{_ANNOTATION}sub-group-count", "")
            places.append(
                PodSetTemplate(
                    name=f"{job['metadata']['name']}-{len(places)}",
                    template_path=path,
                    count=int(pod_set.get("replicas", 1)),
                    template=_as_stored(template),
                    pod_index_label=annotations.get(f"{_ANNOTATION}pod-index-label"),
                    sub_group_index_label=annotations.get(f"{_ANNOTATION}sub-group-index-label"),
                    sub_group_count=int(sub_groups) if sub_groups.isdigit() else None,
                )
            )
    return places


def _pod_sets(job: Object, component: int, options: JobOptions) -> list[Object]:
    """As its controller found them, or as declared, or as the wrapped kind has them."""
    found = value_at(job, ("status", "componentStatus", component, "podSets"))
    declared = value_at(job, ("spec", "components", component, "declaredPodSets"))
    return list(found or declared or _inferred(value_at(job, ("spec", "components", component, "template")), options))


def _inferred(wrapped: Object, options: JobOptions) -> Iterator[Object]:
    from pykueue.translate.jobs import registry  # this framework is one of those registered

    for framework in registry.FRAMEWORKS.values():
        resource = framework.resource
        if framework.dependency is not None:
            continue
        if (wrapped.get("apiVersion"), wrapped.get("kind")) == (resource.api_version, resource.kind):
            for place in framework.places(wrapped, options):
                labels = {
                    "pod-index-label": place.pod_index_label,
                    "sub-group-index-label": place.sub_group_index_label,
                    "sub-group-count": place.sub_group_count,
                }
                yield {
                    "replicas": place.count,
                    "path": "template" + "".join(_step_text(step) for step in place.template_path),
                    "annotations": {f"{_ANNOTATION}{name}": str(value) for name, value in labels.items() if value},
                }


def _steps(path: str) -> Path:
    """`template.spec.replicatedJobs[0].template` without its first word."""
    found = _STEP.findall(path.removeprefix("template"))
    return tuple(name or int(index) for name, index in found)


def _step_text(step: str | int) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def _as_stored(template: Object) -> Object:
    """What matters to quota, with the defaults that an API server would have filled in."""
    spec = template["spec"]
    stored: dict[str, Any] = {
        **_POD_DEFAULTS,
        **{name: spec[name] for name in _POD_FIELDS if spec.get(name) is not None},
    }
    if "terminationGracePeriodSeconds" not in spec:
        stored["terminationGracePeriodSeconds"] = 30
    for field in ("initContainers", "containers"):
        if spec.get(field):
            stored[field] = [_stored_container(container) for container in spec[field]]
    metadata = template.get("metadata") or {}
    kept = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    return {"metadata": kept, "spec": stored}


def _stored_container(container: Object) -> Object:
    kept = {name: container[name] for name in _CONTAINER_FIELDS if container.get(name) is not None}
    pull = container.get("imagePullPolicy") or ("Always" if _is_latest(container.get("image", "")) else "IfNotPresent")
    return {**_CONTAINER_DEFAULTS, **kept, "imagePullPolicy": pull}


def _is_latest(image: str) -> bool:
    if not image or "@" in image:
        return False
    _, _, tag = image.rpartition("/")[2].partition(":")
    return tag in ("", "latest")


def _hand_over(job: Object, places: Sequence[PodSetTemplate], infos: Sequence[PodSetInfo]) -> None:
    given = zip(places, infos, strict=True)
    for component, pairs in groupby(given, key=lambda pair: pair[0].template_path[2]):
        assert isinstance(component, int)
        job["spec"]["components"][component]["podSetInfos"] = [_shown(info) for _, info in pairs]


def _take_back(job: Object, _places: Sequence[PodSetTemplate], _infos: Sequence[PodSetInfo]) -> None:
    for component in job["spec"].get("components") or ():
        component.pop("podSetInfos", None)


def _shown(info: PodSetInfo) -> Object:
    shown: dict[str, Any] = {
        "annotations": dict(info.annotations),
        "labels": dict(info.labels),
        "nodeSelector": dict(info.node_selector),
        "tolerations": list(info.tolerations),
        "schedulingGates": list(info.scheduling_gates),
    }
    return {name: value for name, value in shown.items() if value}


def _finished(job: Object) -> JobResult | None:
    match (job.get("status") or {}).get("phase"):
        case "Succeeded":
            return JobResult(is_success=True, message="AppWrapper finished successfully")
        case "Failed" if condition_true(job, "ResourcesDeployed") is None:
            return JobResult(is_success=False, message="AppWrapper failed")
        case _:
            return None


FRAMEWORK = JobFramework(
    name="workload.codeflare.dev/appwrapper",
    resource=Resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper", namespaced=True),
    suspend_path=("spec", "suspend"),
    places=_places,
    finished=_finished,
    is_active=lambda job: condition_true(job, "QuotaReserved") is not None,
    pods_ready=lambda job: condition_true(job, "PodsReady") is not None,
    inject=_hand_over,
    eject=_take_back,
)
