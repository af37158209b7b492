"""Keeps the rules of aggregated ClusterRoles equal to the union of the roles that they select."""

import asyncio
import logging

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Scheme
from pykueue.apiserver.calls import Frame, Patch, Subscription, Target, User, Verbs, WatchCall, WriteCall
from pykueue.apiserver.security import roles
from pykueue.apiserver.security.authorizer import GROUP, Authorizer
from pykueue.kube.client import PatchType

log = logging.getLogger(__name__)

_WRITER = WriteCall(
    user=User(name="system:apiserver", groups=("system:masters",)), field_manager="clusterrole-aggregation-controller"
)


class Aggregation:
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
        """After the authorizer follows the roles: it is what we read them from."""
        self._subscription = await self._verbs.watch(Target(kind=self._kind), WatchCall(), self)
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._subscription:
            self._subscription.cancel()
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def send(self, _frame: Frame) -> None:
        self._wake.set()

    def close(self) -> None:
        """The server is stopping."""

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            known = list(self._authorizer.cluster_roles())
            for role in known:
                if role.get("aggregationRule"):
                    rules = roles.aggregated(role, known)
                    if rules != (role.get("rules") or []):
                        await self._write(role["metadata"]["name"], rules)

    async def _write(self, name: str, rules: list[dict[str, object]]) -> None:
        try:
            patch = Patch(type=PatchType.MERGE, body={"rules": rules})
            await self._verbs.patch(Target(kind=self._kind, name=name), patch, _WRITER)
        except ApiError as error:
            log.warning("the aggregated role %s could not be written: %s", name, error)
