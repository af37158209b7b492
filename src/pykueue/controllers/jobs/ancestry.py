"""Finds the topmost ancestor of a job that Kueue manages, by following controller references."""

from collections.abc import Iterable, Mapping

from pykueue.api import objects, resources
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.jobs.context import JobPolicy
from pykueue.kube.client import Client
from pykueue.kube.controller.cache import ObjectCache
from pykueue.translate.jobs import framework, registry
from pykueue.translate.jobs.framework import JobFramework

MAX_HOPS = 10
OTHER_OWNERS = (resources.DEPLOYMENT, resources.REPLICA_SET, resources.STATEFUL_SET, resources.CRON_JOB)


class NestingError(Exception):
    """A job has more than ten ancestors, or its owner references form a cycle."""


class Ancestry:
    def __init__(
        self,
        client: Client,
        cache: ObjectCache,
        enabled: Mapping[str, JobFramework],
        external: Iterable[Resource] = (),
    ) -> None:
        self._client = client
        self._cache = cache
        self._enabled = {(kind.resource.group, kind.resource.kind) for kind in enabled.values()}
        job_resources = [kind.resource for kind in (*registry.FRAMEWORKS.values(), *enabled.values())]
        job_resources += external
        self._enabled |= {(resource.group, resource.kind) for resource in external}
        self._resources = {(resource.group, resource.kind): resource for resource in (*OTHER_OWNERS, *job_resources)}

    async def topmost(self, job: Object, policy: JobPolicy) -> Object | None:
        """The topmost managed ancestor; raises ApiError if an owner does not exist.

        Such a job is about to be deleted too, and must not be taken for a job without an owner.
        """
        topmost, current, visited_uids = None, job, {job["metadata"].get("uid")}
        while (owner := objects.controller_of(current)) is not None:
            group, slash, _ = str(owner["apiVersion"]).partition("/")
            address = (group if slash else "", owner["kind"])
            resource = self._resources.get(address)
            if resource is None:
                break
            parent = await self._read(resource, owner["name"], job["metadata"]["namespace"])
            if parent["metadata"]["uid"] != owner["uid"]:
                break
            is_managed = policy.manage_jobs_without_queue_name or framework.queue_name(parent)
            if address in self._enabled and is_managed:
                topmost = parent
            if owner["uid"] in visited_uids or len(visited_uids) > MAX_HOPS:
                raise NestingError(
                    f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {MAX_HOPS}"
                )
            visited_uids.add(owner["uid"])
            current = parent
        return topmost

    async def _read(self, resource: Resource, name: str, namespace: str) -> Object:
        if self._cache.is_listed(resource) and (cached := self._cache.get(resource, name, namespace)) is not None:
            return cached
        return await self._client.get(resource, name, namespace)
