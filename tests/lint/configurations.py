"""Builders of manifests for sets of queues, with a default for everything that a set is not about."""

import yaml

from pykueue.api import manifests
from pykueue.lint import checks

KUEUE = "kueue.x-k8s.io/v1beta2"
NEVER = {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}


def flavor(name="default", **labels):
    spec = {"nodeLabels": labels} if labels else {}
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def quota(nominal, borrowing=None, lending=None):
    limits = {"borrowingLimit": borrowing, "lendingLimit": lending}
    return {"nominalQuota": nominal} | {name: limit for name, limit in limits.items() if limit is not None}


def groups(flavors):
    """`flavors`: flavor to resource to quota; a plain number is a nominal quota."""
    flavors = {
        name: {resource: value if isinstance(value, dict) else quota(value) for resource, value in resources.items()}
        for name, resources in flavors.items()
    }
    return [
        {
            "coveredResources": list(next(iter(flavors.values()))),
            "flavors": [
                {"name": name, "resources": [{"name": resource, **value} for resource, value in resources.items()]}
                for name, resources in flavors.items()
            ],
        }
    ]


def queue(name="team", flavors=None, *, cohort=None, preemption=None, weight=None, **spec):
    spec = {"namespaceSelector": {}, "resourceGroups": groups(flavors or {"default": {"cpu": 8}}), **spec}
    if cohort:
        spec["cohortName"] = cohort
    if preemption:
        spec["preemption"] = NEVER | preemption
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def cohort(name, flavors=None, *, parent=None, weight=None):
    spec = {"resourceGroups": groups(flavors)} if flavors else {}
    if parent:
        spec["parentName"] = parent
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def local_queue(name="train", cluster_queue="team", *, namespace="default", weight=None, stop=None):
    spec = {"clusterQueue": cluster_queue}
    if stop is not None:
        spec["stopPolicy"] = stop
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    return {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def namespace(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def node(name="node-1", labels=None, **capacity):
    amounts = {resource.replace("gpu", "nvidia.com/gpu"): str(amount) for resource, amount in capacity.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def job(name="job", queue_name="train", *, parallelism=1, priority_class=None, **requests):
    labels = {"kueue.x-k8s.io/queue-name": queue_name}
    if priority_class:
        labels["kueue.x-k8s.io/priority-class"] = priority_class
    requests = {resource.replace("gpu", "nvidia.com/gpu"): str(amount) for resource, amount in requests.items()}
    limits = {resource: amount for resource, amount in requests.items() if "/" in resource}
    container = {"name": "c", "image": "busybox", "resources": {"requests": requests, "limits": limits}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism,
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def priority(name, value):
    return {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


def check(name, controller):
    return {
        "apiVersion": KUEUE,
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {"controllerName": controller},
    }


def configuration(**fields):
    return {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **fields}


def lint(objects):
    """The findings in the manifests of a set, which must be readable."""
    documents, faults = manifests.read(yaml.safe_dump_all(objects), "queues.yaml")
    assert not faults
    return checks.of_documents(documents)
