"""Run a coroutine on a loop of ours from code that may run on a loop itself, as in a notebook."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

Answer = TypeVar("Answer")
Run = Callable[[Coroutine[Any, Any, Answer]], Answer]
"""`run_until_complete` of a loop, or `run` of an `asyncio.Runner`."""
_START_SECONDS = 10.0
"""A thread that has not begun by then was interrupted before it was started."""


def complete(run: Run[Answer], work: Awaitable[Answer]) -> Answer:
    """Await `work` on the loop of `run`: on another thread if this one runs a loop already.

    Ctrl-C, in a notebook "interrupt", cancels the work.
    """
    if not _runs_a_loop():
        return run(_awaited(work))
    answer: Future[Answer] = Future()
    cancel, began = [], threading.Event()

    async def cancellable() -> Answer:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        began.set()
        return await work

    def run_all() -> None:
        try:
            answer.set_result(run(cancellable()))
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            answer.set_exception(error)

    try:
        threading.Thread(target=run_all, name="pykueue", daemon=True).start()
        return answer.result()
    except BaseException:
        if not answer.done() and began.wait(_START_SECONDS):
            cancel[0]()
            wait([answer])
        raise


def call(function: Callable[[], Answer]) -> Answer:
    """Call a function that runs a loop: on another thread if this one runs a loop already."""
    if not _runs_a_loop():
        return function()
    with ThreadPoolExecutor(1, thread_name_prefix="pykueue") as thread:
        return thread.submit(function).result()


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _awaited(work: Awaitable[Answer]) -> Answer:
    return await work
