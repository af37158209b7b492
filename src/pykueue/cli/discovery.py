"""Which kind a word means on the cluster at hand: `job`, `rayjobs.ray.io`, `po`. Used by `--for`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykueue.api.scheme import Resource
    from pykueue.kube.client import Client


class UnknownKindError(Exception):
    """The cluster serves nothing of that name."""


async def find(client: "Client", word: str) -> "Resource":
    """The plural, the singular, the kind or a short name, with or without its group."""
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
    """What to look through, the core first."""
    listed = (await client.raw("GET", "/apis")).get("groups") or ()
    versions = [each["preferredVersion"]["groupVersion"] for each in listed]
    chosen = [each for each in versions if group in ("", each.rpartition("/")[0])]
    core = [("v1", "/api/v1")] if not group else []
    return core + [(each, f"/apis/{each}") for each in chosen]


def _names(entry: dict[str, Any]) -> set[str]:
    return {entry["name"], entry.get("singularName", ""), entry["kind"].lower(), *(entry.get("shortNames") or ())}


def _resource(api_version: str, entry: dict[str, Any]) -> "Resource":
    from pykueue.api.scheme import Resource

    group, _, version = api_version.rpartition("/")
    return Resource(group, version, entry["name"], entry["kind"], bool(entry["namespaced"]))
