"""Discovery: the groups, versions and resources of the server, in all forms that clients read.

Documents are built from the scheme and the hooks and cached until one of them changes. All clients
can read the plain lists (`/api`, `/apis/GROUP/VERSION`); kubectl since 1.26 reads the two
aggregated documents.
"""

import functools
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from pykueue.api.scheme import Kind, Scheme
from pykueue.apiserver.http import routes
from pykueue.apiserver.http.hooks import ExtraResource, Hooks

_STABILITY = {"": 3, "beta": 2, "alpha": 1}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryEntry:
    """One resource or subresource of one version."""

    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    singular: str = ""
    kind_group: str | None = None
    kind_version: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_hash: str = ""

    def api_resource(self) -> Document:
        document: Document = {
            "name": self.name,
            "singularName": self.singular,
            "namespaced": self.namespaced,
            "kind": self.kind,
            "verbs": list(self.verbs),
        }
        if self.kind_group is not None:
            document |= {"group": self.kind_group, "version": self.kind_version}
        optional = {
            "shortNames": list(self.short_names),
            "categories": list(self.categories),
            "storageVersionHash": self.storage_hash,
        }
        return document | {key: value for key, value in optional.items() if value}

    def response_kind(self, group: str, version: str) -> Document:
        is_own = self.kind_group is None
        return {
            "group": group if is_own else self.kind_group,
            "version": version if is_own else self.kind_version,
            "kind": self.kind,
        }


@functools.cache
def version_rank(version: str) -> tuple[int, int, int, str]:
    """A sort key: v1beta1 < v1beta2 < v1 < v2. Clients prefer the last."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (0, 0, 0, version)
    major, stability, minor = match.groups()
    return (_STABILITY[stability or ""], int(major), int(minor or 0), version)


class Discovery:
    def __init__(self, scheme: Scheme, hooks: Hooks) -> None:
        self._scheme = scheme
        self._hooks = hooks
        self._entries: dict[str, dict[str, list[DiscoveryEntry]]] | None = None
        self._documents: dict[str, tuple[bytes, str]] = {}
        self._hook_generation = -1

    def changed(self) -> None:
        """Build the documents again on next use: kinds were added or removed."""
        self._entries = None
        self._documents.clear()

    def groups(self) -> dict[str, dict[str, list[DiscoveryEntry]]]:
        """Resources by group and version. The preferred version of a group is first."""
        if self._entries is None or self._hook_generation != self._hooks.generation:
            self._documents.clear()
            self._hook_generation = self._hooks.generation
            self._entries = _collect(self._scheme, self._hooks)
        return self._entries

    def has_version(self, group: str, version: str) -> bool:
        return version in self.groups().get(group, {})

    def document(self, path: str, address: str = "") -> tuple[bytes, str] | None:
        """The plain document of a path and its ETag; None if there is no such path."""
        return self._cached(f"{path} {address}", lambda: self._plain(path, address))

    def aggregated(self, path: str, version: str) -> tuple[bytes, str] | None:
        """The apidiscovery.k8s.io document of `/api` or `/apis`, and its ETag."""
        return self._cached(f"{path} aggregated {version}", lambda: self._aggregated(path, version))

    def _cached(self, key: str, make: Any) -> tuple[bytes, str] | None:
        self.groups()
        if key not in self._documents:
            document = make()
            if document is None:
                return None
            data = msgspec.json.encode(document)
            self._documents[key] = (data, f'"{hashlib.sha256(data).hexdigest().upper()}"')
        return self._documents[key]

    def _plain(self, path: str, address: str) -> Document | None:
        parts = path.strip("/").split("/")
        match parts:
            case ["api"]:
                addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
                return {
                    "kind": "APIVersions",
                    "versions": list(self.groups().get("", {})),
                    "serverAddressByClientCIDRs": addresses,
                }
            case ["apis"]:
                named = [group for group in self.groups() if group]
                return {
                    "kind": "APIGroupList",
                    "apiVersion": "v1",
                    "groups": [_group(group, self.groups()[group]) for group in named],
                }
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group] if group and group in self.groups():
                return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, self.groups()[group])}
            case ["apis", group, version] if group:
                return self._resources(group, version)
        return None

    def _resources(self, group: str, version: str) -> Document | None:
        if not self.has_version(group, version):
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": [entry.api_resource() for entry in self.groups()[group][version]],
        }

    def _aggregated(self, path: str, api_version: str) -> Document:
        items = [
            {
                "metadata": {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None},
                "versions": [
                    {
                        "version": version,
                        "resources": list(_nested(entries, group, version)),
                        "freshness": "Current",
                    }
                    for version, entries in versions.items()
                ],
            }
            for group, versions in self.groups().items()
            if bool(group) == (path == "/apis")
        ]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{api_version}",
            "metadata": {},
            "items": items,
        }


def _group(group: str, versions: dict[str, list[DiscoveryEntry]]) -> Document:
    named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": named, "preferredVersion": named[0]}


def _nested(entries: list[DiscoveryEntry], group: str, version: str) -> Iterator[Document]:
    subresources = defaultdict(list)
    for entry in entries:
        plural, slash, subresource = entry.name.partition("/")
        if slash:
            subresources[plural].append(
                {
                    "subresource": subresource,
                    "responseKind": entry.response_kind(group, version),
                    "verbs": list(entry.verbs),
                }
            )
    main = {entry.name: entry for entry in entries if "/" not in entry.name}
    for plural in dict.fromkeys([*main, *subresources]):
        document: Document = {"resource": plural}
        if plural in main:
            resource = main[plural]
            document |= {
                "responseKind": resource.response_kind(group, version),
                "scope": "Namespaced" if resource.namespaced else "Cluster",
                "singularResource": resource.singular,
                "verbs": list(resource.verbs),
                "shortNames": list(resource.short_names),
                "categories": list(resource.categories),
            }
        else:
            is_namespaced = any(entry.namespaced for entry in entries if entry.name.startswith(f"{plural}/"))
            document |= {"scope": "Namespaced" if is_namespaced else "Cluster", "verbs": []}
        if plural in subresources:
            document["subresources"] = subresources[plural]
        yield {key: value for key, value in document.items() if value != [] or key == "verbs"}


def _collect(scheme: Scheme, hooks: Hooks) -> dict[str, dict[str, list[DiscoveryEntry]]]:
    groups: dict[str, dict[str, list[DiscoveryEntry]]] = defaultdict(lambda: defaultdict(list))
    for kind in scheme:
        groups[kind.group][kind.version] += _entries_of(kind, hooks)
    for extra in hooks.groups.values():
        groups[extra.group][extra.version] += [_extra_entry(resource) for resource in extra.resources]
    return {
        group: {version: versions[version] for version in sorted(versions, key=version_rank, reverse=True)}
        for group, versions in sorted(groups.items(), key=lambda item: ("." in item[0], item[0] != ""))
    }


def _entries_of(kind: Kind, hooks: Hooks) -> Iterator[DiscoveryEntry]:
    identity = f"{kind.group}/{kind.storage_version or kind.version}/{kind.kind}"
    yield DiscoveryEntry(
        name=kind.plural,
        kind=kind.kind,
        namespaced=kind.namespaced,
        verbs=routes.verbs_of(kind),
        singular=kind.singular_name,
        short_names=kind.short_names,
        categories=kind.categories,
        storage_hash=hashlib.sha256(identity.encode()).hexdigest()[:11] + "=",
    )
    if kind.has_status:
        yield DiscoveryEntry(
            name=f"{kind.plural}/status", kind=kind.kind, namespaced=kind.namespaced, verbs=routes.SUBRESOURCE_VERBS
        )
    if (kind.group, kind.kind) == ("", "Pod"):
        for name in routes.POD_SUBRESOURCES:
            yield DiscoveryEntry(name=f"pods/{name}", kind="Pod", namespaced=True, verbs=routes.SUBRESOURCE_VERBS)
    if kind.scale:
        yield DiscoveryEntry(
            name=f"{kind.plural}/scale",
            kind="Scale",
            namespaced=kind.namespaced,
            verbs=routes.SUBRESOURCE_VERBS,
            kind_group="autoscaling",
            kind_version="v1",
        )
    for (group, plural, _), (resource, _handler) in hooks.subresources.items():
        if (group, plural) == (kind.group, kind.plural):
            yield _extra_entry(resource)


def _extra_entry(resource: ExtraResource) -> DiscoveryEntry:
    return DiscoveryEntry(
        name=resource.name,
        kind=resource.kind,
        namespaced=resource.namespaced,
        verbs=resource.verbs,
        singular=resource.singular,
        kind_group=resource.kind_group or None,
        kind_version=resource.kind_version,
        short_names=resource.short_names,
        categories=resource.categories,
    )
