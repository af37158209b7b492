"""Current objects by address, for admission and for the parts of the core that look at other kinds."""

from collections.abc import Iterable

from pykueue.api.scheme import Kind, Object, Resource, Scheme
from pykueue.apiserver import versions
from pykueue.apiserver.store.rows import Key, Stored
from pykueue.apiserver.store.store import Store


class StoreLookup:
    """`api.scheme.Lookup` on the store: objects in the version of the resource asked for."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self._store = store
        self._scheme = scheme

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        kind = self._kind(resource)
        stored = self._store.head(versions.key_of(kind, namespace, name)) if kind else None
        if kind is None or stored is None:
            return None
        return stored.peek() if versions.is_stored_as_shown(kind) else versions.from_storage(kind, stored.decode())

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        kind = self._kind(resource)
        if kind is None:
            return
        for stored in self._store.select(versions.storage_group(kind), kind.plural, namespace):
            yield stored.peek() if versions.is_stored_as_shown(kind) else versions.from_storage(kind, stored.decode())

    def _kind(self, resource: Resource) -> Kind | None:
        return self._scheme.for_path(resource.group, resource.version, resource.plural)


def namespace_of(store: Store, name: str) -> Stored | None:
    return store.head(Key("", "namespaces", "", name))
