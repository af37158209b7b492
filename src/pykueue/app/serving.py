"""What every command that runs until a signal shares: its configuration, its event loop, and a quiet garbage collector.

Called by `up` and `controller`.
"""

import asyncio
import gc
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pykueue.api.configuration.loading import Loaded

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_COLLECT_AFTER_OBJECTS = 50_000


def load_configuration(path: Path | None) -> "Loaded":
    """A Kueue Configuration, from a file with it, a ConfigMap or Helm values; without a file every job kind is queued."""
    from pykueue.api.configuration import loading, shipped

    if path is None:
        return loading.complete(shipped.document())
    try:
        return loading.load(path.read_bytes(), str(path))
    except loading.ConfigurationError as error:
        raise click.ClickException(str(error)) from None


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def stop_signal() -> asyncio.Event:
    """Set when somebody asks this process to stop."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    return stopping


def tune_collector() -> None:
    """Objects in flight are many and free of cycles: collect rarely, and never look at what the start has made."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS)
    gc.enable()
