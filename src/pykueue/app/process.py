"""What both long-running processes need: configuration, event loop, signals, garbage collector.

Used by `app.up` and `app.controller`; commands load their `--config` file here, too.
"""

import contextlib
import faulthandler
import gc
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import asyncio

    from pykueue.api.configuration.loading import Loaded
    from pykueue.api.scheme import Object

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a process logs, and how: `text` or `json`."""

    level: str
    format: str = "text"


LOG_LEVELS = ("debug", "info", "warning", "error")
_GC_THRESHOLD_OBJECTS = 10_000
_FULL_COLLECTION_SECONDS = 3600.0
_DESCRIPTORS = 16_384
_SWITCH_SECONDS = 0.00001


def load_configuration(path: Path | None) -> "Loaded":
    """The Kueue Configuration of a file: plain, in a ConfigMap, or in Helm values.

    Without a file the shipped Configuration is used, which queues every supported job kind.
    """
    from pykueue.api.configuration import loading, shipped

    if path is None:
        return loading.complete(shipped.document())
    try:
        return loading.load(path.read_bytes(), str(path))
    except loading.ConfigurationError as error:
        raise click.ClickException(str(error)) from None


def log_limits(document: "Object", *, is_embedded: bool = False) -> None:
    """Log what the Configuration asks for and this process does not do."""
    from pykueue.api.configuration import effects

    for limit in effects.limits_of(document):
        log.warning("Configuration: %s", limit)
    if is_embedded and (fields := effects.fields_of_controller(document)):
        log.warning("Configuration: read by `pykueue controller`, not by `pykueue up`: %s", ", ".join(fields))


def loop_factory() -> "Callable[[], asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def stop_signal() -> "asyncio.Event":
    """An event that SIGINT and SIGTERM set."""
    import asyncio

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    return stopping


def prepare(log: LogOptions) -> None:
    """What a long-running process does first: logging, tracebacks, descriptors, threads.

    The thread of the store waits for the interpreter at every statement of a commit. It asks the
    event loop for it only after the loop has held it for the whole switch interval, and every
    system call of the loop starts that time anew. With an interval that is longer than the time
    between two system calls, a write waits for as long as the loop is busy.
    """
    from pykueue.kube import log_format

    log_format.configure(log.level, log.format)
    with contextlib.suppress(OSError, ValueError):  # no standard error
        faulthandler.enable()
    _raise_descriptor_limit()
    sys.setswitchinterval(_SWITCH_SECONDS)


def _raise_descriptor_limit() -> None:
    """Allow as many open files as the system permits: each client and each pod needs some."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < target:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def tune_collector() -> None:
    """Make the garbage collector run rarely, and look only at what is new.

    A process has many live objects and few reference cycles. A collection of the objects of 5,000
    Workloads holds the event loop up for 300 ms, so what a collection leaves alive is frozen until
    the next full one. The pause grows with the threshold, and the sum of all pauses hardly does.
    """
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD_OBJECTS)
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)
    gc.enable()
    _collect_later()


def _collect_later() -> None:
    import asyncio

    asyncio.get_running_loop().call_later(_FULL_COLLECTION_SECONDS, collect_everything)


def _freeze_survivors(phase: str, _info: dict[str, int]) -> None:
    if phase == "stop":
        gc.freeze()


def collect_everything() -> None:
    gc.unfreeze()
    gc.collect()
    _collect_later()
