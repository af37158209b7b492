"""Sets the rules of aggregated ClusterRoles to the union of the roles that they select."""

import asyncio
import logging

from pykueue.api import objects
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Scheme
from pykueue.apiserver.calls import (
    PatchBody,
    ResourceTarget,
    Sink,
    Subscription,
    UserInfo,
    Verbs,
    WatchCall,
    WatchFrame,
    WriteCall,
)
from pykueue.apiserver.security import roles
from pykueue.apiserver.security.authorizer import GROUP, Authorizer
from pykueue.kube.client import PatchType

log = logging.getLogger(__name__)

_WRITER = WriteCall(
    user=UserInfo(name="system:apiserver", groups=("system:masters",)),
    field_manager="clusterrole-aggregation-controller",
)


class ClusterRoleAggregation(Sink):
    def __init__(self, verbs: Verbs, scheme: Scheme, authorizer: Authorizer) -> None:
        self._verbs = verbs
        self._authorizer = authorizer
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._subscription: Subscription | None = None
        kind = scheme.for_path(GROUP, "v1", "clusterroles")
        assert kind is not None
        self._kind = kind

    async def start(self) -> None:
        """Start after the authorizer, whose copies of the roles are read here."""
        self._subscription = await self._verbs.watch(ResourceTarget(kind=self._kind), WatchCall(), self)
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._subscription:
            self._subscription.cancel()
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def send(self, _frame: WatchFrame) -> None:
        self._wake.set()

    def close(self) -> None:
        """The server stops."""

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            cluster_roles = list(self._authorizer.cluster_roles())
            for role in cluster_roles:
                if role.get("aggregationRule"):
                    rules = roles.aggregated(role, cluster_roles)
                    if rules != (role.get("rules") or []):
                        await self._write(objects.name(role), rules)

    async def _write(self, name: str, rules: list[dict[str, object]]) -> None:
        try:
            patch = PatchBody(type=PatchType.MERGE, body={"rules": rules})
            await self._verbs.patch(ResourceTarget(kind=self._kind, name=name), patch, _WRITER)
        except ApiError as error:
            log.warning("the aggregated role %s could not be written: %s", name, error)
