"""`pykueue up --detach`: start the process in the background, and return when it is ready."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from pykueue.app.notification import READY, SOCKET_VARIABLE
from pykueue.cli import output as outputs
from pykueue.cli.data_directory import DataDirectory

LOG = "up.log"
_POLL_SECONDS = 0.1


def start(directory: DataDirectory, arguments: list[str]) -> None:
    """Run `pykueue ARGUMENTS` in a session of its own; its output goes to a file."""
    if running := directory.holder():
        raise click.ClickException(
            f"pykueue runs already (process {running.pid} on {running.host}); `pykueue status{directory.options}` shows it"
        )
    directory.make_private()
    path = directory.path / LOG
    with tempfile.TemporaryDirectory() as temporary, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        address = str(Path(temporary) / "notify")
        listener.bind(address)
        listener.settimeout(_POLL_SECONDS)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as log:
            process = subprocess.Popen(  # noqa: S603 - this program
                [sys.executable, "-P", "-m", "pykueue", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {SOCKET_VARIABLE: address},
            )
        _wait(listener, process, path)
    outputs.echo(path.read_text(errors="replace"), nl=False)
    outputs.echo(f"It runs in the background (process {process.pid}, log in {path}).")
    outputs.echo(
        f"`pykueue status{directory.options}` shows it; `pykueue down{directory.options}` ends it and its jobs."
    )


def _wait(listener: socket.socket, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the process is ready; if it ends before, its output is the error."""
    while process.poll() is None:
        try:
            if READY in listener.recv(4096):
                return
        except TimeoutError:
            continue
    text = log.read_text(errors="replace").strip().removeprefix("Error: ")
    raise click.ClickException(text or f"pykueue up ended with {process.returncode}")
