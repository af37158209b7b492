"""Finds a Job by its name, for every command that names one, and suggests a similar name."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

_MOST_LISTED = 5


def plain(name: str) -> str:
    """The name without a kind before it: `job/train` is `train`."""
    return name.rpartition("/")[2]


async def find(client: "Client", namespace: str, name: str) -> "Object":
    """The Job of this name; ClickException if there is none."""
    from pykueue.api import resources
    from pykueue.kube.client import get_or_none

    job = await get_or_none(client, resources.JOB, plain(name), namespace)
    if job is None:
        raise click.ClickException(await not_found(client, namespace, plain(name)))
    return job


async def not_found(client: "Client", namespace: str, name: str) -> str:
    """That there is no Job of this name, and which was probably meant."""
    from pykueue.api import objects, resources
    from pykueue.api.errors import ApiError

    try:
        names = sorted(map(objects.name, (await client.list(resources.JOB, namespace)).items))
    except ApiError:
        names = []
    similar = hint(name, names)
    listed = f"; existing: {', '.join(names)}" if names and not similar and len(names) <= _MOST_LISTED else ""
    return f"Job {name} does not exist in namespace {namespace}{similar}{listed}"


def hint(name: str, names: "Iterable[str]") -> str:
    """`. Did you mean 'x'?` if one of the names is similar, else ""."""
    existing = list(dict.fromkeys(names))
    if not existing:
        return ""
    import difflib

    close = difflib.get_close_matches(name, existing)
    return f". Did you mean {' or '.join(map(repr, close))}?" if close else ""
