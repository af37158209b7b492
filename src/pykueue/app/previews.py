"""What a change would do to the cluster: read it, fork it twice, compare.

`pykueue apply --preview` and the page use it.
"""

import asyncio
import json
import time
from typing import TYPE_CHECKING

from pykueue.api.errors import ApiError, bad_request
from pykueue.api.scheme import Object
from pykueue.app import running_configuration
from pykueue.kube.client import Client

if TYPE_CHECKING:
    from pykueue.simulate.preview import Preview
    from pykueue.simulate.sources.manifests import Manifests

MOST_WORKLOADS = 5000
"""More are not forked for the page: the preview would take longer than somebody waits."""


async def preview(client: Client, changes: "Manifests", horizon_ns: int, *, most: int | None = None) -> "Preview":
    """Compare the next time of the cluster without and with the changes, in a thread."""
    from pykueue.controllers.workloads import predicates
    from pykueue.simulate import preview as previews
    from pykueue.simulate.sources import cluster

    items = await cluster.read_objects(client)
    unfinished = sum(obj["kind"] == "Workload" and not predicates.is_finished(obj) for obj in items)
    if most is not None and unfinished > most:
        message = f"the cluster has {unfinished} unfinished Workloads; use `pykueue apply --preview`"
        raise ApiError(422, "Invalid", message)
    configuration = await running_configuration.find(client)
    return await asyncio.to_thread(
        previews.preview, items, changes, configuration, now_ns=time.time_ns(), horizon_ns=horizon_ns
    )


async def preview_for_page(client: Client, obj: Object) -> Object:
    """The preview of one changed object, as JSON with the lines that the command prints."""
    changes, horizon_ns = await asyncio.to_thread(_changes, obj)
    answer = await preview(client, changes, horizon_ns, most=MOST_WORKLOADS)
    return {**answer.as_json(), "lines": list(answer.lines())}


def _changes(obj: Object) -> "tuple[Manifests, int]":
    """Runs in a thread, because it loads the modules of the simulation."""
    from pykueue.simulate.preview import HOUR_NS
    from pykueue.simulate.sources import manifests
    from pykueue.simulate.sources.rows import SourceError

    written = {name: part for name, part in obj.items() if name != "status"}
    try:
        return manifests.load([("the new object", json.dumps(written).encode())]), HOUR_NS
    except SourceError as error:
        raise bad_request(str(error)) from None
