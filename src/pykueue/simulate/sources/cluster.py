"""Queues and Workloads of a running cluster, for planning and for previews."""

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from pykueue.api import conditions, objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.kube.client import Client
from pykueue.simulate.engine_driver.world import KINDS

_UNREADABLE = (403, 404)
_DAY_NS = 86400 * SECOND_NS


class PastWorkload(msgspec.Struct, frozen=True, kw_only=True):
    workload: Object
    """Without its status, as it was when it arrived."""
    submit_ns: int
    """Since the first Workload of the history."""
    run_ns: int | None
    """From its admission to its end; None if it has not ended."""


class ClusterHistory(msgspec.Struct, frozen=True, kw_only=True):
    objects: list[Object]
    workloads: list[PastWorkload]
    configuration: Mapping[str, Any]


async def read_objects(client: Client) -> list[Object]:
    """All objects that decisions depend on; kinds that the user may not list are left out."""
    kinds = [resource for name, resource in KINDS.items() if name != "Pod"]

    async def list_kind(resource: Any) -> list[Object]:
        try:
            items = (await client.list(resource)).items
        except ApiError as error:
            if error.code in _UNREADABLE and resource is not resources.CLUSTER_QUEUE:
                return []
            raise
        return [{"apiVersion": resource.api_version, "kind": resource.kind, **obj} for obj in items]

    lists = await asyncio.gather(*map(list_kind, kinds))
    return [obj for items in lists for obj in items]


def history(items: list[Object], days: float, now_ns: int, configuration: Mapping[str, Any]) -> ClusterHistory:
    """The Workloads that were created in the last days, and everything else as it is.

    Time begins with the first of them: what was used before is unknown, not nothing.
    """
    since_ns = now_ns - round(days * _DAY_NS)
    recent = [obj for obj in items if obj["kind"] == "Workload" and _created_ns(obj) >= since_ns]
    first_ns = min(map(_created_ns, recent), default=since_ns)
    past = [_past(obj, first_ns) for obj in recent]
    past.sort(key=lambda row: (row.submit_ns, objects.name(row.workload)))
    others = [obj for obj in items if obj["kind"] != "Workload"]
    return ClusterHistory(objects=others, workloads=past, configuration=configuration)


def _created_ns(workload: Object) -> int:
    return to_ns(workload["metadata"]["creationTimestamp"])


def _past(workload: Object, first_ns: int) -> PastWorkload:
    stripped = copy.deepcopy({name: part for name, part in workload.items() if name != "status"})
    return PastWorkload(
        workload=stripped,
        submit_ns=_created_ns(workload) - first_ns,
        run_ns=run_ns(workload),
    )


def run_ns(workload: Object) -> int | None:
    """How long a finished Workload was admitted; None if it has not finished."""
    finished, admitted = conditions.find(workload, "Finished"), conditions.find(workload, "Admitted")
    if finished is None or admitted is None or finished["status"] != "True":
        return None
    return max(0, conditions.since_ns(finished) - conditions.since_ns(admitted))
