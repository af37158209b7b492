"""An asyncio event loop in virtual time, in which a seeded generator draws the order of ready
callbacks.

Nothing waits: when no callback is ready, the time jumps to the next timer. There are no threads
and no sockets; what other code gives to an executor runs inline, after a drawn time. One callback
is one step.
"""

import asyncio
import contextvars
import heapq
import random
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, TypeVarTuple

from pykueue.api.times import SECOND_NS

Arguments = TypeVarTuple("Arguments")

STEP_NS = 10_000
"""The virtual time that a step takes, so that timers run out while callbacks are ready."""
EPOCH_NS = 1_767_225_600 * SECOND_NS
"""Virtual time begins with the year 2026."""
_EXECUTOR_SECONDS = 0.004
_CLOSING_STEPS = 200_000


class SimulationStuckError(Exception):
    """Nothing is ready and no timer is set, but the run has not ended."""


class Process:
    """A group of tasks that end together, as those of one operating system process do."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._most_tasks = 1000
        self._context = contextvars.Context()
        self._context.run(_process.set, self)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine, context=self._context.copy())

    def add(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        if len(self._tasks) > self._most_tasks:
            self._tasks = {task: None for task in self._tasks if not task.done()}
            self._most_tasks = 2 * len(self._tasks) + 1000

    def kill(self) -> None:
        """Cancel every task.

        The clients of a dead process send nothing, so clean-up code has no effect.
        """
        self.is_dead = True
        for task in self._tasks:
            task.cancel()


class SimulationTask(asyncio.Task[Any]):
    """A task whose hash does not depend on its address, so that sets of tasks have one order."""

    def __init__(self, *args: Any, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class SimulationLoop(asyncio.AbstractEventLoop):
    """`window` is how many of the ready callbacks are drawn from: 1 keeps asyncio's own order."""

    def __init__(self, source: random.Random, *, window: int = 1000) -> None:
        self.now_ns = 0
        self.steps = 0
        self.errors: list[dict[str, Any]] = []
        """What asyncio reported to the loop: failures of callbacks and of tasks that nobody
        awaited."""
        self.after_step: Callable[[], None] = lambda: None
        self._random = source
        self._window = window
        self._ready: list[asyncio.Handle] = []
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._timers_set = 0
        self._tasks_created = 0
        self._is_closed = False

    # Running

    def run_until_complete(self, future: Any) -> Any:
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._close_generator)
        asyncio.events._set_running_loop(self)  # noqa: SLF001 - the way of every loop outside asyncio
        try:
            task: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
            while not task.done():
                self._step()
                self.after_step()
            return task.result()
        finally:
            asyncio.events._set_running_loop(None)  # noqa: SLF001
            sys.set_asyncgen_hooks(*hooks)

    def close(self) -> None:
        """Cancel what is left, and run until it has ended."""
        self.after_step = lambda: None
        self.run_until_complete(self._end_all())
        self._is_closed = True

    async def _end_all(self) -> None:
        last_step = self.steps + _CLOSING_STEPS
        while (tasks := asyncio.all_tasks(self) - {asyncio.current_task(self)}) and self.steps < last_step:
            for task in tasks:
                task.cancel()
            await asyncio.sleep(1)

    def _step(self) -> None:
        self._take_due_timers()
        if not self._ready:
            if not self._timers:
                raise SimulationStuckError
            self.now_ns = max(self.now_ns, self._timers[0][0])
            self._take_due_timers()
        ready = self._ready
        choices = min(len(ready), self._window)
        handle = ready.pop(int(self._random.random() * choices) if choices > 1 else 0)
        if handle.cancelled():
            return
        self.steps += 1
        self.now_ns += STEP_NS
        handle._run()  # noqa: SLF001 - the way of every loop outside asyncio

    def _take_due_timers(self) -> None:
        timers = self._timers
        while timers and (timers[0][0] <= self.now_ns or timers[0][2].cancelled()):
            handle = heapq.heappop(timers)[2]
            if not handle.cancelled():
                self._ready.append(handle)

    # What asyncio asks of a loop

    def time(self) -> float:
        return self.now_ns / SECOND_NS

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._set_timer(self.now_ns + int(delay * SECOND_NS), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._set_timer(int(when * SECOND_NS), callback, args, context)

    def _set_timer(
        self, when_ns: int, callback: Any, args: Any, context: contextvars.Context | None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when_ns / SECOND_NS, callback, args, self, context)
        self._timers_set += 1
        heapq.heappush(self._timers, (when_ns, self._timers_set, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer leaves the heap when it comes to its top."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        self._tasks_created += 1
        task = SimulationTask(coro, loop=self, name=name, context=context, number=self._tasks_created)
        process = _process.get() if context is None else context.get(_process)
        if process is not None:
            process.add(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run the function after a drawn time, and answer after another: whoever cancels in
        between may have had its effect.
        """
        future = self.create_future()
        self.call_later(self._random.random() * _EXECUTOR_SECONDS, self._execute, future, func, args)
        return future

    def _execute(self, future: asyncio.Future[Any], func: Callable[..., Any], args: Any) -> None:
        if future.cancelled():
            return
        pause = self._random.random() * _EXECUTOR_SECONDS
        try:
            answer = func(*args)
        except Exception as error:  # noqa: BLE001 - handed on to the waiter
            self.call_later(pause, _set, future, future.set_exception, error)
        else:
            self.call_later(pause, _set, future, future.set_result, answer)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._is_closed:
            self.call_soon(lambda: self.create_task(generator.aclose()), context=contextvars.Context())

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio.events._get_running_loop() is self  # noqa: SLF001

    def is_closed(self) -> bool:
        return self._is_closed


def _set(future: asyncio.Future[Any], setter: Callable[[Any], None], value: Any) -> None:
    if not future.done():
        setter(value)


class VirtualClock:
    """The `Clock` of everything that runs on the loop."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        return EPOCH_NS + self._loop.now_ns

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
