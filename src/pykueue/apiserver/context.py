"""What every verb uses: the store, the kinds, the settings of admission, and the clock."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from pykueue.api.scheme import AdmissionRequest, Kind, Object, Resource, Scheme, Settings
from pykueue.apiserver import versions
from pykueue.apiserver.admission import AdmissionPlugin, MutatingPlugin, ServerAdmission
from pykueue.apiserver.calls import DeleteCall, ResourceTarget, WriteCall
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.rows import Stored
from pykueue.apiserver.store.store import Store


def now() -> datetime:
    return datetime.now(UTC)


class StoreLookup:
    """`api.scheme.Lookup` on the store. Objects have the version of the requested resource."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self._store = store
        self._scheme = scheme

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        kind = self._kind(resource)
        stored = self._store.head(versions.key_of(kind, namespace, name)) if kind else None
        return _read(kind, stored) if kind and stored else None

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        kind = self._kind(resource)
        if kind is None:
            return
        for stored in self._store.select(versions.storage_group(kind), kind.plural, namespace):
            yield _read(kind, stored)

    def _kind(self, resource: Resource) -> Kind | None:
        return self._scheme.for_path(resource.group, resource.version, resource.plural)


def _read(kind: Kind, stored: Stored) -> Object:
    """The object in the version of `kind`. Admission must not change it."""
    if versions.is_storage_version(kind):
        return stored.shared_or_decoded()
    return versions.from_storage(kind, stored.decode())


@dataclass(slots=True, kw_only=True)
class Context:
    """Shared by all verbs. `settings` may be replaced while the server runs."""

    store: Store
    scheme: Scheme
    settings: Settings
    clock: Callable[[], datetime] = now
    authorizer: Authorizer | None = None
    plugins: list[AdmissionPlugin] = field(default_factory=list)
    deletion_plugins: list[AdmissionPlugin] = field(default_factory=list)
    mutating_plugins: list[MutatingPlugin] = field(default_factory=list)
    creation_listeners: list[Callable[[Object, str], None]] = field(default_factory=list)
    """Called with every object that is created, and the name of its user."""
    has_user_rules: Callable[[], bool] = lambda: True
    """Whether users have defined policies or webhooks, which may concern any write."""

    def admission(self, call: WriteCall, target: ResourceTarget, *, is_patch: bool = False) -> ServerAdmission:
        return ServerAdmission(
            call=msgspec.structs.replace(call, requested_kind=target.kind),
            lookup=StoreLookup(self.store, self.scheme),
            settings=self.settings,
            is_patch=is_patch,
            authorizer=self.authorizer,
            plugins=self.plugins,
            mutating_plugins=self.mutating_plugins,
            subresource=target.subresource,
            is_event=target.kind.kind == "Event",
        )

    def check_deletion(self, kind: Kind, obj: Object, call: DeleteCall, requested_kind: Kind) -> list[str]:
        """The warnings of the plugins; ApiError if one of them refuses the deletion."""
        request = AdmissionRequest(
            operation="DELETE",
            object=obj,
            old=obj,
            lookup=StoreLookup(self.store, self.scheme),
            settings=self.settings,
        )
        write = WriteCall(user=call.user, dry_run=call.dry_run, requested_kind=requested_kind, reviews=call.reviews)
        return [warning for plugin in self.deletion_plugins for warning in plugin.validate(kind, request, write)]


class WriteOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a write: the object as it is stored, or would be stored in a dry run.

    The response is sent when the revision of `stored` is committed.
    """

    kind: Kind
    stored: Stored
    warnings: tuple[str, ...] = ()
    is_created: bool = False
    is_removed: bool = False
    is_written: bool = True
    """False for a dry run, which has nothing to commit."""
