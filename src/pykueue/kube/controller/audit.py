"""A slow audit of an object cache: what differs from the API for long is counted and repaired.

Lists and watches keep a cache in step, so there should be nothing to find. A watch that was lost
without a word, or a mistake in the cache, would otherwise stay until a restart. The cache may be
behind the API for a moment: an object differs only if it still does after `GRACE_SECONDS`, and the
cache has not changed it in between.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client, ListOptions, get_or_none
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, version_of

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 300.0
GRACE_SECONDS = 30.0
PAGE = 200


@dataclass(frozen=True, slots=True)
class Suspect:
    """An object that the list and the cache have in different versions."""

    resource: Resource
    key: Key
    cached: Object | None


class CacheAudit:
    """`on_difference` is called with the kind of every object that was repaired."""

    def __init__(
        self, client: Client, cache: ObjectCache, clock: Clock, on_difference: Callable[[Resource], None] | None = None
    ) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock
        self._on_difference = on_difference or (lambda _resource: None)

    async def run(self, then: Callable[[], Awaitable[object]] | None = None) -> None:
        """Audit the cache every few minutes, and call `then` after it."""
        while True:
            await self._clock.sleep(INTERVAL_SECONDS)
            try:
                await self.audit()
                if then is not None:
                    await then()
            except (ApiError, OSError) as error:
                log.info("the audit of the cache ended early: %s", error)

    async def audit(self) -> int:
        """Compare all kinds once, and return how many objects were repaired."""
        suspects: list[Suspect] = []
        for resource in self._cache.listed_kinds():
            suspects += await self._suspects(resource)
        if not suspects:
            return 0
        await self._clock.sleep(GRACE_SECONDS)
        return sum([await self._repair(suspect) for suspect in suspects])

    async def _suspects(self, resource: Resource) -> list[Suspect]:
        versions = await self._versions(resource)
        cached = {key_of(obj): obj for obj in self._cache.all(resource)}
        suspects = []
        for key in versions.keys() | cached.keys():
            obj = cached.get(key)
            is_behind = obj is None or key not in versions or version_of(obj) < versions[key]
            if is_behind:
                suspects.append(Suspect(resource, key, obj))
        return sorted(suspects, key=lambda suspect: suspect.key)

    async def _versions(self, resource: Resource) -> dict[Key, int]:
        versions: dict[Key, int] = {}
        token = ""
        while True:
            page = await self._client.list(resource, options=ListOptions(limit=PAGE, continue_token=token))
            versions |= {key_of(obj): version_of(obj) for obj in page.items}
            token = page.continue_token
            await asyncio.sleep(0)  # neither a long list nor many short ones hold up others
            if not token:
                return versions

    async def _repair(self, suspect: Suspect) -> bool:
        """Repair the object if it differs still; whether it did."""
        resource, (namespace, name) = suspect.resource, suspect.key
        obj = await get_or_none(self._client, resource, name, namespace)
        cached = self._cache.get(resource, name, namespace)
        if _version(cached) != _version(suspect.cached) or _version(obj) == _version(cached):
            return False
        log.warning(
            "the cache has %s %s/%s in version %s, the API in version %s: repaired",
            resource.kind,
            namespace,
            name,
            _version(cached) or "none",
            _version(obj) or "none",
        )
        self._cache.repair(resource, suspect.key, obj)
        self._on_difference(resource)
        return True


def _version(obj: Object | None) -> int:
    return 0 if obj is None else version_of(obj)
