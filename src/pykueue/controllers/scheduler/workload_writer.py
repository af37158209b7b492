"""Writes the statuses of Workloads for the scheduler, and the events about them.

A write without an answer may still take effect, and the engine must not give its quota to another
Workload before that is decided. Each write is valid for one version of the Workload only, so it is
decided as soon as the Workload has another version, by this write or by another one. Until then
the write is repeated (decision 17).
"""

import itertools
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
from pykueue.kube.controller.cache import ObjectCache, version_of
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.writes import Event, Refused, Update
from pykueue.translate import outcomes

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 1.0
ATTEMPTS = 8
LONGEST_REQUEST_SECONDS = 70
"""A request has no effect after this time: Kubernetes ends it after 60 s."""
NOT_FOUND = 404
SERVER_ERRORS = 500
"""From this code on, and without an answer, a write may have taken effect."""
RETRYABLE = (409, 429, 500, 502, 503, 504)

Change = Callable[[Object], bool]
"""Edits the status of a Workload; False when there is nothing to write."""


class _NoAnswerError(Exception):
    """A write failed, but may take effect before `ends_ns` if the Workload still has `version`."""

    def __init__(self, failure: ApiError | OSError, version: int, ends_ns: int) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.version = version
        self.ends_ns = ends_ns


class WorkloadWriter:
    def __init__(self, client: Client, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._client = client
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self.background = BackgroundWrites(clock)
        self._is_ended = False
        self.has_unanswered_writes = False
        """Whether a write that may still take effect was given up because of the end."""

    def end(self) -> None:
        """Repeat no write any more."""
        self._is_ended = True

    async def write(self, key: values.WorkloadKey, change: Change) -> Object | Refused | None:
        """The Workload as written; None if the change does not apply to it."""
        try:
            return await self._write(key, change)
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            log.warning("workload %s: %s", key, error.message)
            return Refused(error)
        except Exception as error:  # whatever happened, the engine must hear that the write failed
            log.exception("workload %s", key)
            return Refused(error)

    async def _write(self, key: values.WorkloadKey, change: Change) -> Object | Refused | None:
        unanswered: _NoAnswerError | None = None
        """The last write without an answer, until it is known whether it takes effect."""
        for attempt in itertools.count():
            try:
                old = await self._read(key, attempt)
                if unanswered is not None and (old is None or version_of(old) != unanswered.version):
                    unanswered = None
                if old is None:
                    return None
                new = old | {"status": copied(old.get("status") or {})}
                if not change(new):
                    return None
                return await self._send(Update(resource=resources.WORKLOAD, old=old, new=new, status=True))
            except _NoAnswerError as error:
                log.warning("workload %s: no answer, reading it again: %s", key, error)
                unanswered, failure = error.with_traceback(None), error.failure
            except ApiError as error:
                if error.code == NOT_FOUND:
                    raise
                failure = error.with_traceback(None)
            except OSError as error:
                failure = error.with_traceback(None)
            may_take_effect = unanswered is not None and self._clock.now_ns() < unanswered.ends_ns
            if self._is_ended or (attempt + 1 >= ATTEMPTS and not may_take_effect):
                self.has_unanswered_writes |= may_take_effect
                log.warning("workload %s: %s", key, failure)
                return Refused(failure)
        raise AssertionError("the loop ends by a result")

    async def _read(self, key: values.WorkloadKey, attempt: int) -> Object | None:
        """The Workload from the cache, or from the API after a pause if an attempt has failed."""
        namespace, _, name = key.partition("/")
        if attempt == 0:
            return self._cache.get(resources.WORKLOAD, name, namespace)
        await self._clock.sleep(min(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1), LONGEST_PAUSE_SECONDS))
        workload = await self._client.get(resources.WORKLOAD, name, namespace)
        self._cache.observe(resources.WORKLOAD, workload)
        return workload

    async def _send(self, update: Update) -> Object:
        """Write; raise _NoAnswerError if the write may take effect although it failed."""
        began_ns = self._clock.now_ns()
        try:
            return await self._executor.write(update)
        except (ApiError, OSError) as error:
            if isinstance(error, ApiError) and error.code < SERVER_ERRORS:
                raise
            failure = error.with_traceback(None)  # which would refer to the error
        finally:
            self.background.answered((self._clock.now_ns() - began_ns) / SECOND_NS)
        ends_ns = self._clock.now_ns() + LONGEST_REQUEST_SECONDS * SECOND_NS
        raise _NoAnswerError(failure, version_of(update.old), ends_ns)

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
