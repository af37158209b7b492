"""ProvisioningRequests: their names, their content, and which pod sets need one."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pykueue.api import resources as kinds
from pykueue.api.json_copy import copied
from pykueue.api.labels import PROVISIONING_REQUEST_PREFIX
from pykueue.api.scheme import Object
from pykueue.translate import pod_set_info

LONGEST_NAME = 252 - 5
HASH_LENGTH = 5
MANAGED = {"kueue.x-k8s.io/managed": "true"}


def short_name(full: str) -> str:
    if len(full) <= LONGEST_NAME:
        return full
    digest = hashlib.sha1(full.encode(), usedforsecurity=False).hexdigest()
    return f"{full[:LONGEST_NAME]}-{digest[:HASH_LENGTH]}"


def request_name(workload: Object, check: str, attempt: int) -> str:
    return short_name(f"{workload['metadata']['name']}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    return short_name(f"ppt-{request}-{pod_set}")


def attempt_of(request: Object, workload: Object, check: str) -> int:
    """0 if the request is not for this check."""
    prefix = re.escape(short_name(f"{workload['metadata']['name']}-{check}-"))
    found = re.fullmatch(f"{prefix}([0-9]+)", request["metadata"]["name"])
    return int(found[1]) if found else 0


def follows(request: Object, config: Object) -> bool:
    """Asks for the class and the parameters that the configuration names now."""
    spec, wanted = request["spec"], config["spec"]
    parameters = spec.get("parameters") or {}
    return spec.get("provisioningClassName") == wanted["provisioningClassName"] and all(
        parameters.get(name) == value for name, value in (wanted.get("parameters") or {}).items()
    )


@dataclass(slots=True, kw_only=True)
class ProvisionedPodSet:
    """Pods of one template that need machines."""

    pod_set: Object
    assignment: Object
    count: int


def pod_sets_to_provision(workload: Object, config: Object) -> list[ProvisionedPodSet]:
    """Pod sets that use managed resources and have pods; alike ones merged if the configuration says so."""
    assignments = {each["name"]: each for each in workload["status"]["admission"].get("podSetAssignments") or ()}
    managed = set(config["spec"].get("managedResources") or ())
    policy = config["spec"].get("podSetMergePolicy") or ""
    found: list[ProvisionedPodSet] = []
    for pod_set in workload["spec"]["podSets"]:
        assignment = assignments.get(pod_set["name"], {"name": pod_set["name"]})
        count = int(assignment.get("count", pod_set.get("count", 1)))
        if count <= 0 or int(pod_set.get("count", 1)) <= 0 or (managed and not _uses(pod_set, managed)):
            continue
        alike = next((each for each in found if _alike(each.pod_set, pod_set, policy)), None)
        if alike is not None:
            alike.count += count
        else:
            found.append(ProvisionedPodSet(pod_set=pod_set, assignment=assignment, count=count))
    return found


def _uses(pod_set: Object, resources: set[str]) -> bool:
    spec = pod_set["template"]["spec"]
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    used = {
        name
        for container in containers
        for side in ("requests", "limits")
        for name in (container.get("resources") or {}).get(side) or ()
    }
    return bool(used & resources)


def _alike(one: Object, other: Object, policy: str) -> bool:
    if policy == "IdenticalPodTemplates":
        return bool(one["template"] == other["template"])
    if policy == "IdenticalWorkloadSchedulingRequirements":
        return _needs(one["template"]["spec"]) == _needs(other["template"]["spec"])
    return False


def _needs(spec: Object) -> list[object]:
    asked = [
        [(container.get("resources") or {}).get("requests") for container in spec.get(name) or ()]
        for name in ("containers", "initContainers")
    ]
    fields = ("resources", "nodeSelector", "tolerations", "affinity", "resourceClaims")
    return [*asked, *(spec.get(name) or None for name in fields)]


def pod_template(workload: Object, request: str, demand: ProvisionedPodSet, flavors: Mapping[str, Object]) -> Object:
    """With the node selectors of the assigned flavor, so that the autoscaler knows where."""
    info = pod_set_info.from_assignment(demand.assignment, demand.pod_set, flavors=flavors)
    template = pod_set_info.merged_template(demand.pod_set["template"], info)
    for containers in ("containers", "initContainers"):
        for container in template["spec"].get(containers) or ():
            resources = container.get("resources") or {}
            if resources.get("limits"):
                resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {
            "name": template_name(request, demand.pod_set["name"]),
            "namespace": workload["metadata"]["namespace"],
            "labels": dict(MANAGED),
            "ownerReferences": [owner(workload)],
        },
        "template": template,
    }


def request(workload: Object, config: Object, name: str, wanted: list[ProvisionedPodSet]) -> Object:
    spec = config["spec"]
    parameters = dict(spec.get("parameters") or {})
    for annotation, value in (workload["metadata"].get("annotations") or {}).items():
        if annotation.startswith(PROVISIONING_REQUEST_PREFIX):
            parameters[annotation.removeprefix(PROVISIONING_REQUEST_PREFIX)] = value
    return {
        "apiVersion": kinds.PROVISIONING_REQUEST.api_version,
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": name,
            "namespace": workload["metadata"]["namespace"],
            "labels": dict(MANAGED),
            "ownerReferences": [owner(workload)],
        },
        "spec": {
            "provisioningClassName": spec["provisioningClassName"],
            "parameters": parameters,
            "podSets": [
                {"podTemplateRef": {"name": template_name(name, each.pod_set["name"])}, "count": each.count}
                for each in wanted
            ],
        },
    }


def owner(obj: Object) -> Object:
    return {
        "apiVersion": obj.get("apiVersion", kinds.WORKLOAD.api_version),
        "kind": obj.get("kind", "Workload"),
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def updates(workload: Object, made: Object, config: Object) -> list[Object]:
    """PodSetUpdates of a check that is ready: pods use the booked capacity."""
    names = {
        template_name(made["metadata"]["name"], each["name"]): each["name"] for each in workload["spec"]["podSets"]
    }
    annotations = {
        "autoscaling.x-k8s.io/consume-provisioning-request": made["metadata"]["name"],
        "autoscaling.x-k8s.io/provisioning-class-name": made["spec"]["provisioningClassName"],
    }
    details = (made.get("status") or {}).get("provisioningClassDetails") or {}
    selector = {
        rule["key"]: details[rule["valueFromProvisioningClassDetail"]]
        for rule in (config["spec"].get("podSetUpdates") or {}).get("nodeSelector") or ()
        if rule["valueFromProvisioningClassDetail"] in details
    }
    found = []
    for pod_set in made["spec"]["podSets"]:
        update: Object = {"name": names[pod_set["podTemplateRef"]["name"]], "annotations": copied(annotations)}
        if selector:
            update["nodeSelector"] = dict(selector)
        found.append(update)
    return found
