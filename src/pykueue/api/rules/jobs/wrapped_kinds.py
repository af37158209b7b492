"""The kinds that an AppWrapper of the embedded cluster may contain, and their resources.

Read by the AppWrapper operator and by the admission plugin that checks components.
"""

from collections.abc import Mapping

from pykueue.api import resources
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object, Resource

WATCHED: tuple[Resource, ...] = (
    *(
        job_kind.resource
        for job_kind in job_kinds.JOB_KINDS.values()
        if job_kind not in (job_kinds.APP_WRAPPER, job_kinds.SPARK_APPLICATION)
    ),
    resources.SERVICE,
)
"""Kinds whose objects the operator watches: jobs, pods and Services."""
_OTHERS = (
    resources.CONFIG_MAP,
    resources.SECRET,
    Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True),
    resources.REPLICA_SET,
)
_BY_KIND: Mapping[tuple[str, str], Resource] = {
    (resource.api_version, resource.kind): resource for resource in (*WATCHED, *_OTHERS)
}
NAMES = sorted({resource.kind for resource in _BY_KIND.values()})


def resource_of(obj: Object) -> Resource | None:
    """The resource of a wrapped object; None for a kind that cannot be wrapped."""
    return _BY_KIND.get((str(obj.get("apiVersion", "")), str(obj.get("kind", ""))))
