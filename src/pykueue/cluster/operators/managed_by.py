"""Operators leave a job alone whose field `managedBy` names another controller, as MultiKueue."""

from datetime import datetime

from pykueue.api.rules import reading
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object, Resource
from pykueue.kube.controller import writes
from pykueue.kube.controller.controller import Sync


def respecting(resource: Resource, sync: Sync) -> Sync:
    """The sync of a kind, for the jobs that its operator manages."""
    kind = job_kinds.of_owner(resource.api_version, resource.kind)
    if kind is None or not kind.managed_by:
        return sync

    def sync_if_managed(job: Object, children: list[Object], now: datetime) -> writes.Sync:
        manager = reading.at(job, *kind.managed_by)
        return sync(job, children, now) if manager in (None, "", kind.operator) else _nothing()

    return sync_if_managed


def _nothing() -> writes.Sync:
    yield from ()
    return writes.Done()
