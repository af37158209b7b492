"""Which job kinds the policies are about, and how a policy knows that an object belongs to one of them."""

from pykueue.api.rules.jobs import custom, frameworks
from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.api.scheme import Resource, Settings

LOCAL_QUEUE = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", namespaced=True)


def enabled(settings: Settings) -> list[Framework]:
    """Known kinds, and those described in the Configuration in whatever version they come."""
    known = [frameworks.FRAMEWORKS[name] for name in sorted(settings.frameworks)]
    return [*known, *(custom.framework(settings, group, "*", kind) for group, kind in settings.custom_jobs)]


_MAKES = {
    frameworks.JOB_SET: (frameworks.BATCH_JOB,),
    frameworks.MPI_JOB: (frameworks.BATCH_JOB,),
    frameworks.TRAIN_JOB: (frameworks.JOB_SET, frameworks.BATCH_JOB),
    frameworks.RAY_JOB: (frameworks.RAY_CLUSTER, frameworks.BATCH_JOB),
    frameworks.RAY_SERVICE: (frameworks.RAY_CLUSTER,),
    frameworks.LEADER_WORKER_SET: (frameworks.STATEFUL_SET,),
}
"""What stands between an object of a kind and its pods: only direct owners are visible to a policy."""


def listed(framework: Framework) -> str:
    """CEL for the kinds of owners that belong to a framework: elements of a list."""
    resources = (each.resource for each in (framework, *_MAKES.get(framework, ())))
    return ", ".join(f"'{resource.group}/{resource.kind}'" for resource in resources)


def owned(settings: Settings) -> str:
    """CEL for whether the controller of the object is of a managed kind, in any version."""
    kinds = ", ".join(listed(frameworks.FRAMEWORKS[name]) for name in sorted(settings.frameworks))
    group = "(o.apiVersion.contains('/') ? o.apiVersion.split('/')[0] : '')"
    is_managed = f"has(o.controller) && o.controller && ({group} + '/' + o.kind) in [{kinds}]"
    return f"has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, {is_managed})"
