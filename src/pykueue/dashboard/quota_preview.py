"""Before a quota is changed on the page: what the change would do, if the user may see that."""

from collections.abc import Awaitable, Callable
from typing import Any

from pykueue.api import errors, resources
from pykueue.api.scheme import Object
from pykueue.dashboard.page_stream import MayAccess
from pykueue.kube.delegation import AccessRequest

PreviewChange = Callable[[Object], Awaitable[Object]]
"""What a changed object would do to the cluster."""

_QUEUES = resources.CLUSTER_QUEUE
_NEEDED = (
    AccessRequest(verb="patch", group=_QUEUES.group, resource=_QUEUES.plural),
    AccessRequest(verb="list", group=_QUEUES.group, resource=resources.WORKLOAD.plural),
)
"""The answer names Workloads of all namespaces."""


async def answer(body: Any, preview: PreviewChange, may_access: MayAccess, user: str) -> Object:
    for access in _NEEDED:
        if not await may_access(access):
            raise errors.forbidden(access.group, access.resource, "", access.refusal(user))
    if not isinstance(body, dict) or body.get("kind") != _QUEUES.kind:
        raise errors.bad_request("kind: must be ClusterQueue")
    return await preview(body)
