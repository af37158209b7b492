"""Whose job is this? Walks up the controllers of an object to the topmost one that Kueue manages."""

from collections.abc import Mapping

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.jobs.context import JobPolicy
from pykueue.controllers.workloads import predicates
from pykueue.kube.client import Client
from pykueue.kube.controller.cache import ObjectCache, named
from pykueue.translate.jobs import framework, registry
from pykueue.translate.jobs.framework import JobFramework

MAX_HOPS = 10
OTHER_OWNERS = (
    Resource("apps", "v1", "deployments", "Deployment", namespaced=True),
    Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True),
    Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True),
    Resource("batch", "v1", "cronjobs", "CronJob", namespaced=True),
)


class NestingError(Exception):
    """More than ten owners above each other, or owners in a circle."""


class Ancestry:
    def __init__(self, client: Client, mirror: ObjectCache, enabled: Mapping[str, JobFramework]) -> None:
        self._client = client
        self._mirror = mirror
        self._enabled = {(kind.resource.group, kind.resource.kind) for kind in enabled.values()}
        known = [kind.resource for kind in (*registry.FRAMEWORKS.values(), *enabled.values())]
        self._known = {(resource.group, resource.kind): resource for resource in (*OTHER_OWNERS, *known)}

    async def topmost(self, job: Object, policy: JobPolicy) -> Object | None:
        found, current, seen = None, job, {job["metadata"].get("uid")}
        while (owner := predicates.controller_of(current)) is not None:
            group, slash, _ = str(owner["apiVersion"]).partition("/")
            address = (group if slash else "", owner["kind"])
            resource = self._known.get(address)
            if resource is None:
                break
            parent = await self._read(resource, owner["name"], job["metadata"]["namespace"])
            if parent is None or parent["metadata"]["uid"] != owner["uid"]:
                break
            is_managed = policy.manage_jobs_without_queue_name or framework.queue_name(parent)
            if address in self._enabled and is_managed:
                found = parent
            if owner["uid"] in seen or len(seen) > MAX_HOPS:
                raise NestingError(
                    f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {MAX_HOPS}"
                )
            seen.add(owner["uid"])
            current = parent
        return found

    async def _read(self, resource: Resource, name: str, namespace: str) -> Object | None:
        if self._mirror.is_listed(resource) and (seen := self._mirror.get(resource, name, namespace)) is not None:
            return seen
        try:
            return named(resource, await self._client.get(resource, name, namespace))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
