"""The watchdog of the event loop: it logs every turn longer than 100 ms, and where it was.

Nothing is answered while a turn lasts: no request, no watch, no signal, no lease. A timer beats on
the loop; a thread looks at the loop's stack when a beat is overdue, and the late beat logs it. The
CPU time in the message tells work from waiting: a turn with little CPU waited for the machine. A
turn with a second of CPU is a warning. `pykueue up` and `pykueue controller` run one; the metrics
read `blocked_turns`.
"""

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator

log = logging.getLogger(__name__)

LIMIT_SECONDS = 0.1
WARNING_CPU_SECONDS = 1.0
BEAT_SECONDS = 0.025
STACK_FRAMES = 12
STACK_PAUSE_SECONDS = 1.0
"""At most one stack is logged in this time, because a busy machine delays many turns."""

blocked_turns = 0
"""How many turns of event loops of this process were longer than the limit."""


class LoopWatchdog:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._due = 0.0
        self._cpu = 0.0
        self._stack = ""
        """The stack of the present turn, since it is too long."""
        self._stack_logged = -STACK_PAUSE_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)

    def start(self) -> None:
        self._set_timer()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join()

    def _set_timer(self) -> None:
        self._due = time.monotonic() + BEAT_SECONDS
        self._cpu = time.thread_time()
        self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        """Runs on the loop, late by the length of a turn that was too long."""
        now = time.monotonic()
        late_seconds = now - self._due
        if late_seconds > LIMIT_SECONDS:
            _count()
            self._log(now, late_seconds, time.thread_time() - self._cpu)
        self._stack = ""
        self._set_timer()

    def _log(self, now: float, late_seconds: float, cpu_seconds: float) -> None:
        stack = None
        if self._stack and now - self._stack_logged >= STACK_PAUSE_SECONDS:
            self._stack_logged = now
            stack = f"The turn was here:\n{self._stack}"
        level = logging.WARNING if cpu_seconds >= WARNING_CPU_SECONDS else logging.INFO
        if log.isEnabledFor(level):
            text = "one turn of the event loop took %.0f ms (%.0f ms of CPU)"
            times = (late_seconds * 1000, cpu_seconds * 1000)
            log.handle(log.makeRecord(log.name, level, __file__, 0, text, times, None, sinfo=stack))

    def _watch(self) -> None:
        """Runs in a thread of its own."""
        while not self._stopping.wait(LIMIT_SECONDS / 2):
            if not self._stack and time.monotonic() - self._due > LIMIT_SECONDS / 2:
                frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - the only way to see another stack
                self._stack = "".join(traceback.format_stack(frame, STACK_FRAMES)).rstrip()


def _count() -> None:
    global blocked_turns  # noqa: PLW0603 - one count for the process
    blocked_turns += 1


@contextlib.asynccontextmanager
async def watched() -> AsyncIterator[None]:
    """Watch the running loop inside the block."""
    watchdog = LoopWatchdog()
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()
