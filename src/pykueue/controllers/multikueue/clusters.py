"""The controller of MultiKueueClusters: connects to the workers and says in Active how it went."""

import asyncio
import base64
import binascii
import logging
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pykueue.api import conditions, objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.controllers.multikueue import kubeconfig
from pykueue.controllers.multikueue.kubeconfig import Document, KubeconfigError
from pykueue.controllers.multikueue.remote import ConnectionLostError, RemoteCluster
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import Event, changes
from pykueue.kube.informer import Change, Informer

log = logging.getLogger(__name__)

FILE_POLL_NS = 5 * SECOND_NS
"""How often a kubeconfig in a file is read again."""
CLUSTER_PROFILE = Resource("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "ClusterProfile", namespaced=True)
DEPRECATED_PATH = (
    "Using locationType=Path without MultiKueueKubeConfigPathValidation feature gate is deprecated and will be "
    "removed in a future release. Enable the MultiKueueKubeConfigPathValidation feature gate and place kubeconfig "
    "files under /etc/multikueue/kubeconfigs/."
)

NewRemote = Callable[[str], RemoteCluster]


class ClusterController:
    def __init__(
        self,
        client: Client,
        cache: ObjectCache,
        executor: WriteExecutor,
        *,
        clock: Clock,
        new_remote: NewRemote,
        namespace: str,
        checks_paths: bool = False,
        uses_profiles: bool = False,
        access_providers: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.remotes: dict[str, RemoteCluster] = {}
        self._client = client
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._new_remote = new_remote
        self._namespace = namespace
        self._checks_paths = checks_paths
        self._uses_profiles = uses_profiles
        self._access_providers = access_providers
        self.on_connection_change: Callable[[str], None] = lambda _name: None
        self.queue: WorkQueue[str] = WorkQueue("multikueue-cluster", clock)
        self._needed: dict[Resource, asyncio.Event] = {
            resources.SECRET: asyncio.Event(),
            CLUSTER_PROFILE: asyncio.Event(),
        }
        """The kinds of which a cluster has needed an object."""
        self._warned: set[str] = set()
        self._missing_since: dict[str, int] = {}
        cache.on_change(resources.MULTI_KUEUE_CLUSTER, self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or objects.is_deleted(new) or objects.spec(old) != objects.spec(new):
            self.queue.add(objects.name(new or old or {}))

    # Running

    async def run(self) -> None:
        """Watch Secrets and ClusterProfiles once a cluster needs them; close all connections."""
        try:
            async with asyncio.TaskGroup() as group:
                for resource in self._needed:
                    group.create_task(self._watch(resource))
        finally:
            for remote in list(self.remotes.values()):
                await remote.disconnect()

    async def _watch(self, resource: Resource) -> None:
        await self._needed[resource].wait()
        informer = Informer(self._client, resource, namespace=self._namespace, sleep=self._clock.sleep)
        informer.add_handler(lambda change: self._source_changed(resource, change))
        await informer.run()

    def _source_changed(self, resource: Resource, change: Change) -> None:
        for cluster in self._cache.all(resources.MULTI_KUEUE_CLUSTER):
            if _source(cluster) == (resource, objects.name(change.object)):
                self.queue.add(objects.name(cluster))

    def lost(self, name: str) -> None:
        """The connection to a cluster has ended."""
        self.queue.add(name)
        self.on_connection_change(name)

    def lost_since_ns(self, name: str) -> int:
        """Since when a cluster is not connected; one that is not defined, since it was missed."""
        remote = self.remotes.get(name)
        if remote is None:
            return self._missing_since.setdefault(name, self._clock.now_ns())
        return remote.lost_since_ns

    # Reconciling

    async def reconcile(self, name: str) -> int:
        cluster = self._cache.get(resources.MULTI_KUEUE_CLUSTER, name)
        if cluster is None or objects.is_deleted(cluster):
            await self._remove(name)
            return 0
        self._warn_of_path(cluster)
        polls = FILE_POLL_NS if _location_type(cluster) == "Path" else 0
        try:
            document = await self._load(cluster)
        except KubeconfigError as error:
            await self._disconnect(name)
            await self._set_active(cluster, error.reason, f"load client config failed: {error}", is_active=False)
            return polls
        remote = self.remotes.get(name)
        if remote is None:
            remote = self.remotes[name] = self._new_remote(name)
            self._missing_since.pop(name, None)
        was_connected = remote.is_connected
        try:
            wait_ns = await remote.refresh(document)
        except ConnectionLostError as error:
            await self._set_active(cluster, "ClientConnectionFailed", str(error), is_active=False)
            return remote.retry_after_ns
        if wait_ns:
            return wait_ns
        await self._set_active(cluster, "Active", "Connected", is_active=True)
        if not was_connected:
            self.on_connection_change(name)
        return polls

    async def _remove(self, name: str) -> None:
        remote = self.remotes.pop(name, None)
        if remote is not None:
            await remote.disconnect()
            self.on_connection_change(name)

    async def _disconnect(self, name: str) -> None:
        remote = self.remotes.get(name)
        if remote is not None and remote.is_connected:
            await remote.disconnect()
            self.on_connection_change(name)

    def _warn_of_path(self, cluster: Object) -> None:
        name = objects.name(cluster)
        if _location_type(cluster) == "Path" and not self._checks_paths and name not in self._warned:
            self._warned.add(name)
            event = Event(about=cluster, type="Warning", reason="DeprecatedPathUsage", message=DEPRECATED_PATH)
            self._executor.record(event)

    async def _set_active(self, cluster: Object, reason: str, message: str, *, is_active: bool) -> None:
        current = self._cache.get(resources.MULTI_KUEUE_CLUSTER, objects.name(cluster))
        if current is None:
            return
        new = copied(current)
        conditions.put(new, "Active", status=is_active, reason=reason, message=message, now_ns=self._clock.now_ns())
        await self._executor.apply(changes(resources.MULTI_KUEUE_CLUSTER, current, new))

    # The kubeconfig

    async def _load(self, cluster: Object) -> Document:
        source = objects.nested(cluster, "spec", "clusterSource")
        if source.get("clusterProfileRef"):
            return await self._load_profile(source["clusterProfileRef"]["name"])
        location = str(objects.nested(source, "kubeConfig").get("location", ""))
        if _location_type(cluster) == "Path":
            return kubeconfig.read(await asyncio.to_thread(self._read_file, location))
        return kubeconfig.read(await self._read_secret(location))

    async def _load_profile(self, name: str) -> Document:
        if not self._uses_profiles:
            reason = "MultiKueueClusterProfileFeatureDisabled"
            raise KubeconfigError(reason, "MultiKueueClusterProfile feature gate is disabled")
        profile = await self._read(CLUSTER_PROFILE, name, "BadClusterProfile")
        return kubeconfig.from_profile(profile, self._access_providers)

    def _read_file(self, location: str) -> str:
        path = kubeconfig.allowed_path(location) if self._checks_paths else Path(location)
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise KubeconfigError("BadKubeConfig", f"{location} is not a file")
                return file.read(kubeconfig.LARGEST_BYTES + 1)
        except OSError as error:
            message = f"open {location}: {(error.strerror or str(error)).lower()}"
            raise KubeconfigError("BadKubeConfig", message) from error
        except UnicodeDecodeError as error:
            raise KubeconfigError("BadKubeConfig", f"{location} is not text: {error}") from error

    async def _read_secret(self, name: str) -> str:
        secret = await self._read(resources.SECRET, name, "BadKubeConfig")
        data = objects.nested(secret, "data")
        if kubeconfig.SECRET_KEY not in data:
            message = f'key "{kubeconfig.SECRET_KEY}" not found in secret "{name}"'
            raise KubeconfigError("BadKubeConfig", message)
        try:
            return base64.b64decode(data[kubeconfig.SECRET_KEY]).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise KubeconfigError("BadKubeConfig", f'secret "{name}" has no text: {error}') from error

    async def _read(self, resource: Resource, name: str, reason: str) -> Object:
        self._needed[resource].set()
        try:
            return await self._client.get(resource, name, self._namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
            raise KubeconfigError(reason, f'{kind} "{name}" not found') from error


def _location_type(cluster: Object) -> str:
    reference = objects.nested(cluster, "spec", "clusterSource").get("kubeConfig")
    return str((reference or {}).get("locationType") or "Secret") if reference else ""


def _source(cluster: Object) -> tuple[Resource, str] | None:
    """The Secret or ClusterProfile that a cluster reads."""
    source = objects.nested(cluster, "spec", "clusterSource")
    if source.get("clusterProfileRef"):
        return CLUSTER_PROFILE, str(source["clusterProfileRef"]["name"])
    if _location_type(cluster) == "Secret":
        return resources.SECRET, str(source["kubeConfig"]["location"])
    return None
