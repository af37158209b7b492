"""OpenTelemetry traces of the life of Workloads, sent to a collector as OTLP over HTTP in JSON.

A Workload is a trace, whose id is its uid without the dashes. When it leaves a phase (queued,
reserved, admitted, running), the phase becomes a span, with the times of the conditions; an
evicted Workload is queued again. When it has finished, or was deleted, a span of its whole life
is the parent of the others. `pykueue up --traces URL` sends them; OTEL_SERVICE_NAME and
OTEL_EXPORTER_OTLP_HEADERS have their usual meaning. What a collector does not take is dropped
after a few tries.
"""

import asyncio
import hashlib
import logging
import os
import time
import urllib.parse
from collections import deque
from typing import TYPE_CHECKING, Any

from pykueue.api import conditions, labels, objects, resources, times
from pykueue.api.scheme import Object
from pykueue.kube.client import Client
from pykueue.kube.informer import Change, Informer
from pykueue.kube.supervisor import Supervisor

if TYPE_CHECKING:
    from aiohttp import ClientSession

log = logging.getLogger(__name__)

Span = dict[str, Any]

_PATH = "/v1/traces"
_MOST_SPANS = 10_000
"""Spans that wait for the collector; the oldest are dropped."""
_BATCH = 500
_TRIES = 3
_TIMEOUT_SECONDS = 10.0
_UUID_LENGTH = 36
_INTERNAL = 1
_OK, _ERROR = 1, 2


def phase(workload: Object) -> tuple[str, int]:
    """The phase of a Workload, and since when, in nanoseconds."""
    by_type = conditions.by_type(workload)
    for condition, name in (("Finished", "finished"), ("PodsReady", "running"), ("Admitted", "admitted")):
        if conditions.is_true(workload, condition) and (name != "running" or conditions.is_true(workload, "Admitted")):
            return name, conditions.since_ns(by_type[condition])
    if conditions.is_true(workload, "QuotaReserved"):
        return "reserved", conditions.since_ns(by_type["QuotaReserved"])
    if "Evicted" in by_type and "QuotaReserved" in by_type:
        return "queued", conditions.since_ns(by_type["QuotaReserved"])
    return "queued", times.to_ns(workload["metadata"]["creationTimestamp"])


def spans(change: Change, now_ns: int) -> list[Span]:
    """The spans that end with a change: that of a phase, and at the end that of the whole life."""
    workload, old = change.object, change.old
    if change.type == "DELETED":
        if conditions.is_true(workload, "Finished"):
            return []
        name, since = phase(workload)
        return [_span(workload, name, since, now_ns), _life(workload, now_ns, "deleted")]
    if old is None or (before := phase(old))[0] == (after := phase(workload))[0]:
        return []
    ended = [_span(workload, *before, after[1])] if before[0] != "finished" else []
    return [*ended, _life(workload, after[1], "")] if after[0] == "finished" else ended


def _life(workload: Object, end_ns: int, error: str) -> Span:
    finished = conditions.by_type(workload).get("Finished") or {}
    if finished.get("reason", "Succeeded") != "Succeeded":
        error = str(finished.get("message") or finished["reason"])
    start_ns = times.to_ns(workload["metadata"]["creationTimestamp"])
    span = _span(workload, "workload", start_ns, end_ns)
    del span["parentSpanId"]
    return span | {"status": {"code": _ERROR, "message": error} if error else {"code": _OK}}


def _span(workload: Object, name: str, start_ns: int, end_ns: int) -> Span:
    uid = objects.uid(workload)
    owner = next(iter(objects.owner_references(workload)), {})
    texts = {
        "k8s.namespace.name": objects.namespace(workload),
        "kueue.workload": objects.name(workload),
        "kueue.job": str(owner.get("name", "")),
        "kueue.localqueue": str(objects.spec(workload).get("queueName", "")),
        "kueue.clusterqueue": str(objects.nested(workload, "status", "admission").get("clusterQueue", "")),
        "kueue.priorityclass": objects.labels(workload).get(labels.PRIORITY_CLASS, ""),
    }
    return {
        "traceId": _hash(uid) if len(uid) != _UUID_LENGTH else uid.replace("-", ""),
        "spanId": _span_id(uid, name, start_ns),
        "parentSpanId": _span_id(uid, "workload", times.to_ns(workload["metadata"]["creationTimestamp"])),
        "name": name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(max(start_ns, end_ns)),
        "attributes": [_text(key, value) for key, value in texts.items() if value],
    }


def _span_id(uid: str, name: str, start_ns: int) -> str:
    """The same span has the same id, also when it is sent twice."""
    return _hash(f"{uid} {name} {start_ns}")[:16]


def _hash(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


class Traces:
    """A component of `pykueue up`."""

    def __init__(self, client: Client, endpoint: str) -> None:
        self._url = endpoint if endpoint.endswith(_PATH) else endpoint.rstrip("/") + _PATH
        self._waiting: deque[Span] = deque(maxlen=_MOST_SPANS)
        self._added = asyncio.Event()
        self._supervisor = Supervisor()
        self._workloads = Informer(client, resources.WORKLOAD)
        self._workloads.add_handler(self._changed)

    async def start(self) -> None:
        self._supervisor.start("traces", self._workloads.run)
        self._supervisor.start("traces to the collector", self._send_all)

    async def stop(self) -> None:
        await self._supervisor.stop()

    def _changed(self, change: Change) -> None:
        if new := spans(change, time.time_ns()):
            self._waiting.extend(new)
            self._added.set()

    async def _send_all(self) -> None:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(headers=_headers(), timeout=timeout) as session:
            while True:
                await self._added.wait()
                self._added.clear()
                while self._waiting:
                    batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                    await self._send(session, batch)

    async def _send(self, session: "ClientSession", batch: list[Span]) -> None:
        from aiohttp import ClientError

        error = ""
        for attempt in range(_TRIES):
            try:
                async with session.post(self._url, json=_document(batch), allow_redirects=False) as response:
                    if response.ok:
                        return
                    error = f"status {response.status}"
            except (ClientError, OSError, TimeoutError) as failure:
                error = str(failure) or type(failure).__name__
            await asyncio.sleep(2**attempt)
        log.warning("%d spans are lost: %s: %s", len(batch), self._url, error)


def _headers() -> dict[str, str]:
    """The variable has pairs such as `authorization=Bearer%20abc,tenant=a`."""
    pairs = (pair.partition("=") for pair in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",") if "=" in pair)
    return {name.strip(): urllib.parse.unquote(value.strip()) for name, _, value in pairs}


def _document(batch: list[Span]) -> dict[str, Any]:
    service = _text("service.name", os.environ.get("OTEL_SERVICE_NAME") or "pykueue")
    scope = {"scope": {"name": "pykueue"}, "spans": batch}
    return {"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": [scope]}]}
