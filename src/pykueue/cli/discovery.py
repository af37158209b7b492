"""The resource types of a cluster, by any of their names: `job`, `rayjobs.ray.io`, `po`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykueue.api.scheme import Resource
    from pykueue.kube.client import Client


class UnknownKindError(Exception):
    """The cluster serves no resource type of that name."""


async def find(client: "Client", word: str) -> "Resource":
    """Find a resource type by plural, singular, kind or short name, with or without its group."""
    name, _, group = word.lower().partition(".")
    for api_version, path in await _versions(client, group):
        for entry in (await client.raw("GET", path)).get("resources") or ():
            if "/" not in entry["name"] and name in _names(entry):
                return _resource(api_version, entry)
    raise UnknownKindError(f'the server doesn\'t have a resource type "{word}"')


async def of_kind(client: "Client", api_version: str, kind: str) -> "Resource | None":
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    for entry in (await client.raw("GET", path)).get("resources") or ():
        if entry["kind"] == kind and "/" not in entry["name"]:
            return _resource(api_version, entry)
    return None


async def _versions(client: "Client", group: str) -> list[tuple[str, str]]:
    """The preferred API versions and their paths, the core group first."""
    groups = (await client.raw("GET", "/apis")).get("groups") or ()
    preferred = [entry["preferredVersion"]["groupVersion"] for entry in groups]
    matching = [version for version in preferred if group in ("", version.rpartition("/")[0])]
    core = [("v1", "/api/v1")] if not group else []
    return core + [(version, f"/apis/{version}") for version in matching]


def _names(entry: dict[str, Any]) -> set[str]:
    return {entry["name"], entry.get("singularName", ""), entry["kind"].lower(), *(entry.get("shortNames") or ())}


def _resource(api_version: str, entry: dict[str, Any]) -> "Resource":
    from pykueue.api.scheme import Resource

    group, _, version = api_version.rpartition("/")
    return Resource(group, version, entry["name"], entry["kind"], bool(entry["namespaced"]))
