"""Builds ProvisioningRequests and their PodTemplates, and decides which pod sets need them."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pykueue.api import objects
from pykueue.api import resources as kinds
from pykueue.api.json_copy import copied
from pykueue.api.labels import MANAGED, PROVISIONING_REQUEST_PREFIX
from pykueue.api.scheme import Object
from pykueue.translate import pod_set_info

MAX_NAME_LENGTH = 252 - 5
HASH_LENGTH = 5
_LABELS = {MANAGED: "true"}


def short_name(full: str) -> str:
    if len(full) <= MAX_NAME_LENGTH:
        return full
    digest = hashlib.sha1(full.encode(), usedforsecurity=False).hexdigest()
    return f"{full[:MAX_NAME_LENGTH]}-{digest[:HASH_LENGTH]}"


def request_name(workload: Object, check: str, attempt: int) -> str:
    return short_name(f"{workload['metadata']['name']}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    return short_name(f"ppt-{request}-{pod_set}")


def attempt_of(request: Object, workload: Object, check: str) -> int:
    """The number of the attempt in the request's name; 0 if it is for another check."""
    prefix = re.escape(short_name(f"{workload['metadata']['name']}-{check}-"))
    match = re.fullmatch(f"{prefix}([0-9]+)", request["metadata"]["name"])
    return int(match[1]) if match else 0


def matches_config(request: Object, config: Object) -> bool:
    """Whether the request has the class and the parameters of the current configuration."""
    spec, config_spec = request["spec"], config["spec"]
    parameters = spec.get("parameters") or {}
    return spec.get("provisioningClassName") == config_spec["provisioningClassName"] and all(
        parameters.get(name) == value for name, value in (config_spec.get("parameters") or {}).items()
    )


@dataclass(slots=True, kw_only=True)
class ProvisionedPodSet:
    """A pod set, or several merged ones, in a ProvisioningRequest."""

    pod_set: Object
    assignment: Object
    count: int


def pod_sets_to_provision(workload: Object, config: Object) -> list[ProvisionedPodSet]:
    """The pod sets with pods that use managed resources, merged as `podSetMergePolicy` says."""
    admission = workload["status"]["admission"]
    assignments = {assignment["name"]: assignment for assignment in admission.get("podSetAssignments") or ()}
    managed = set(config["spec"].get("managedResources") or ())
    policy = config["spec"].get("podSetMergePolicy") or ""
    pod_sets: list[ProvisionedPodSet] = []
    for pod_set in workload["spec"]["podSets"]:
        assignment = assignments.get(pod_set["name"], {"name": pod_set["name"]})
        count = int(assignment.get("count", pod_set.get("count", 1)))
        if count <= 0 or int(pod_set.get("count", 1)) <= 0 or (managed and not _uses(pod_set, managed)):
            continue
        merged = next((other for other in pod_sets if _can_merge(other.pod_set, pod_set, policy)), None)
        if merged is not None:
            merged.count += count
        else:
            pod_sets.append(ProvisionedPodSet(pod_set=pod_set, assignment=assignment, count=count))
    return pod_sets


def _uses(pod_set: Object, resources: set[str]) -> bool:
    spec = objects.nested(pod_set, "template", "spec")
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    used = {
        name
        for container in containers
        for side in ("requests", "limits")
        for name in objects.nested(container, "resources").get(side) or ()
    }
    return bool(used & resources)


def _can_merge(one: Object, other: Object, policy: str) -> bool:
    if policy == "IdenticalPodTemplates":
        return bool(one["template"] == other["template"])
    if policy == "IdenticalWorkloadSchedulingRequirements":
        return _scheduling_requirements(objects.nested(one, "template", "spec")) == _scheduling_requirements(
            objects.nested(other, "template", "spec")
        )
    return False


def _scheduling_requirements(spec: Object) -> list[object]:
    requests = [
        [objects.nested(container, "resources").get("requests") for container in spec.get(name) or ()]
        for name in ("containers", "initContainers")
    ]
    fields = ("resources", "nodeSelector", "tolerations", "affinity", "resourceClaims")
    return [*requests, *(spec.get(name) or None for name in fields)]


def pod_template(workload: Object, request: str, pod_set: ProvisionedPodSet, flavors: Mapping[str, Object]) -> Object:
    """The PodTemplate with the node selectors of the assigned flavor, for the autoscaler."""
    info = pod_set_info.from_assignment(pod_set.assignment, pod_set.pod_set, flavors=flavors)
    template = pod_set_info.merged_template(pod_set.pod_set["template"], info)
    for containers in ("containers", "initContainers"):
        for container in template["spec"].get(containers) or ():
            resources = container.get("resources") or {}
            if resources.get("limits"):
                resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {
            "name": template_name(request, pod_set.pod_set["name"]),
            "namespace": workload["metadata"]["namespace"],
            "labels": dict(_LABELS),
            "ownerReferences": [owner(workload)],
        },
        "template": template,
    }


def request(workload: Object, config: Object, name: str, pod_sets: list[ProvisionedPodSet]) -> Object:
    spec = config["spec"]
    parameters = dict(spec.get("parameters") or {})
    for annotation, value in objects.annotations(workload).items():
        if annotation.startswith(PROVISIONING_REQUEST_PREFIX):
            parameters[annotation.removeprefix(PROVISIONING_REQUEST_PREFIX)] = value
    return {
        "apiVersion": kinds.PROVISIONING_REQUEST.api_version,
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": name,
            "namespace": workload["metadata"]["namespace"],
            "labels": dict(_LABELS),
            "ownerReferences": [owner(workload)],
        },
        "spec": {
            "provisioningClassName": spec["provisioningClassName"],
            "parameters": parameters,
            "podSets": [
                {"podTemplateRef": {"name": template_name(name, entry.pod_set["name"])}, "count": entry.count}
                for entry in pod_sets
            ],
        },
    }


def owner(obj: Object) -> Object:
    return objects.controller_reference({"apiVersion": kinds.WORKLOAD.api_version, "kind": "Workload", **obj})


def updates(workload: Object, request: Object, config: Object) -> list[Object]:
    """The `podSetUpdates` of a ready check, which make the pods use the booked capacity."""
    names = {
        template_name(objects.name(request), pod_set["name"]): pod_set["name"]
        for pod_set in workload["spec"]["podSets"]
    }
    annotations = {
        "autoscaling.x-k8s.io/consume-provisioning-request": request["metadata"]["name"],
        "autoscaling.x-k8s.io/provisioning-class-name": request["spec"]["provisioningClassName"],
    }
    details = objects.status(request).get("provisioningClassDetails") or {}
    selector = {
        rule["key"]: details[rule["valueFromProvisioningClassDetail"]]
        for rule in objects.nested_list(config["spec"], "podSetUpdates", "nodeSelector")
        if rule["valueFromProvisioningClassDetail"] in details
    }
    entries = []
    for pod_set in request["spec"]["podSets"]:
        update: Object = {"name": names[pod_set["podTemplateRef"]["name"]], "annotations": copied(annotations)}
        if selector:
            update["nodeSelector"] = dict(selector)
        entries.append(update)
    return entries
