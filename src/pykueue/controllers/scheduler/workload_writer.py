"""Writes the statuses of Workloads for the scheduler, and the events about them."""

import logging
from collections.abc import Callable, Sequence

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.workloads import predicates
from pykueue.engine import values
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.background_writes import BackgroundWrites
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.writes import Event, Refused, Update
from pykueue.translate import outcomes

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.01
ATTEMPTS = 8
SERVER_ERRORS = 500
"""From this code on, and without an answer, a write may have taken effect."""
RETRYABLE = (409, 429, 500, 502, 503, 504)

Change = Callable[[Object], bool]
"""Edits the status of a Workload; False when there is nothing to write."""


class WorkloadWriter:
    def __init__(self, client: Client, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._client = client
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self.background = BackgroundWrites(clock)

    async def write(self, key: values.WorkloadKey, change: Change) -> Object | Refused | None:
        """The Workload as written; None if the change does not apply to it."""
        try:
            return await self._write(key, change)
        except ApiError as error:
            if error.code == 404:
                return None
            log.warning("workload %s: %s", key, error.message)
            return Refused(error)
        except Exception as error:  # whatever happened, the engine must hear that the write failed
            log.exception("workload %s", key)
            return Refused(error)

    async def _write(self, key: values.WorkloadKey, change: Change) -> Object | Refused | None:
        namespace, _, name = key.partition("/")
        old = self._cache.get(resources.WORKLOAD, name, namespace)
        failure: Exception | None = None  # without its traceback, which would refer to it
        for attempt in range(ATTEMPTS):
            try:
                if attempt:
                    await self._clock.sleep(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
                    old = await self._client.get(resources.WORKLOAD, name, namespace)
                    self._cache.observe(resources.WORKLOAD, old)
                if old is None:
                    return None
                new = old | {"status": copied(old.get("status") or {})}
                if not change(new):
                    return None
                return await self._send(Update(resource=resources.WORKLOAD, old=old, new=new, status=True))
            except ApiError as error:
                if error.code != 409 and error.code < SERVER_ERRORS:
                    raise
                failure = error.with_traceback(None)
            except OSError as error:
                log.warning("workload %s: no answer, reading it again: %s", key, error)
                failure = error.with_traceback(None)
        assert failure is not None
        return Refused(failure)

    async def _send(self, update: Update) -> Object:
        began_ns = self._clock.now_ns()
        try:
            return await self._executor.write(update)
        finally:
            self.background.answered((self._clock.now_ns() - began_ns) / SECOND_NS)

    @staticmethod
    def is_retryable(refused: Refused) -> bool:
        """Whether the same write may succeed later."""
        error = refused.error
        return isinstance(error, OSError) or (isinstance(error, ApiError) and error.code in RETRYABLE)

    def cached(self, key: values.WorkloadKey) -> Object | None:
        namespace, _, name = key.partition("/")
        return self._cache.get(resources.WORKLOAD, name, namespace)

    def record(self, recorded: Sequence[outcomes.WorkloadEvent], written: Object) -> None:
        """Record events about the written Workload, or about the Workloads that they name."""
        key = predicates.key(written)
        for event in recorded:
            about = written if event.workload == key else self.cached(event.workload)
            if about is not None:
                event_type = "Warning" if event.is_warning else "Normal"
                self._executor.record(Event(about=about, type=event_type, reason=event.reason, message=event.message))
