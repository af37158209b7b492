"""The data directory of a cluster on this machine, and how a command finds the running one.

`--data-dir` and `--name` select it; without them it is that of PYKUEUE_DATA_DIR or PYKUEUE_NAME,
else ~/.local/share/pykueue. A named cluster has the directory ~/.local/share/pykueue-NAME.
"""

import functools
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pykueue.apiserver.store.lock import LockHolder

Command = Callable[..., Any]

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDirectory:
    path: Path
    options: str = ""
    """The options that select it, after a space: ` --name lab`; empty for the default."""
    is_named: bool = False

    @property
    def kubeconfig(self) -> Path:
        """The credentials of the administrator; they exist after the first start."""
        return self.path / "kubeconfig"

    def holder(self) -> "LockHolder | None":
        """The process that uses the directory, on whatever machine."""
        from pykueue.apiserver.store import lock

        return lock.holder(self.path)

    def make_private(self) -> None:
        """Create the directory, or refuse one that others own or may change."""
        from pykueue.apiserver.security import files

        try:
            files.private_directory(self.path)
        except files.UnsafeDirectoryError as error:
            raise click.ClickException(str(error)) from None

    def is_running_here(self) -> bool:
        process = self.holder()
        return process is not None and process.host == socket.gethostname() and os.access(self.kubeconfig, os.R_OK)


def select(data_dir: Path | None = None, name: str = "") -> DataDirectory:
    """The directory that the options and the environment select."""
    if data_dir is not None and name:
        raise click.UsageError("--data-dir and --name both select a directory; use one of them")
    options = f" --data-dir {data_dir}" if data_dir is not None else f" --name {name}" if name else ""
    if not options:
        variable = os.environ.get("PYKUEUE_DATA_DIR")
        data_dir = Path(variable) if variable else None
        name = "" if data_dir else os.environ.get("PYKUEUE_NAME", "")
    path = data_dir or _directory_of(name)
    return DataDirectory(path=path.expanduser().resolve(), options=options, is_named=bool(name))


def _directory_of(name: str) -> Path:
    if name and not _NAME.fullmatch(name):
        raise click.UsageError(f"{name!r} cannot name a cluster; use up to 40 lowercase letters, digits and -")
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / (f"pykueue-{name}" if name else "pykueue")


def with_data_dir(command: Command) -> Command:
    """Add the options that select a data directory; the command receives it as `directory`."""

    @click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        help="The directory of all data. Default: PYKUEUE_DATA_DIR, else ~/.local/share/pykueue.",
    )
    @click.option(
        "--name",
        default="",
        help="The name of the cluster, if this machine has several: its data are in "
        "~/.local/share/pykueue-NAME. Default: PYKUEUE_NAME, else none.",
    )
    @functools.wraps(command)
    def wrapped(*, data_dir: Path | None, name: str, **options: Any) -> Any:
        return command(directory=select(data_dir, name), **options)

    return wrapped


def to_read(directory: DataDirectory) -> DataDirectory:
    """The directory of the cluster that KUBECONFIG names, if nothing else selects one.

    For commands that only read: nothing is started or ended because of a kubeconfig.
    """
    is_selected = directory.options or os.environ.get("PYKUEUE_DATA_DIR") or os.environ.get("PYKUEUE_NAME")
    kubeconfig = Path(os.environ.get("KUBECONFIG", "")).expanduser()
    if is_selected or kubeconfig.name != directory.kubeconfig.name:
        return directory
    path = kubeconfig.parent.resolve()
    other = DataDirectory(path=path, options=f" --data-dir {path}")
    return directory if other.holder() is None else other


def running_names() -> list[str]:
    """The names of the named clusters that run here."""
    default = _directory_of("")
    prefix = f"{default.name}-"
    paths = sorted(default.parent.glob(f"{prefix}*"))
    return [path.name.removeprefix(prefix) for path in paths if DataDirectory(path=path).is_running_here()]


def running_kubeconfig() -> Path | None:
    """The administrator's kubeconfig of the cluster that runs here; None if none runs."""
    directory = select()
    return directory.kubeconfig if directory.is_running_here() else None
