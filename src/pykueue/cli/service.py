"""`pykueue service`: systemd starts `pykueue up` with the machine or the user's session."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from pykueue.cli import output as outputs
from pykueue.cli.data_directory import DataDirectory, with_data_dir

_UNIT = """\
[Unit]
Description=pykueue: queues and jobs on this machine
Documentation=https://kueue.sigs.k8s.io
After=network.target

[Service]
Type=notify
ExecStart={command}
# Jobs go on while pykueue stops or is restarted.
KillMode=process
Restart=on-failure
RestartSec=2

[Install]
WantedBy={target}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    name: str
    is_system: bool

    @property
    def path(self) -> Path:
        if self.is_system:
            return Path("/etc/systemd/system") / self.name
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Path(home) / "systemd" / "user" / self.name

    def systemctl(self, *words: str) -> list[str]:
        return ["systemctl", *([] if self.is_system else ["--user"]), *words]


@click.group()
def service() -> None:
    """Start `pykueue up` by systemd."""


_SYSTEM = click.option(
    "--system/--user", "is_system", default=False, show_default=True, help="A service of the machine, or of this user."
)


@service.command(context_settings={"ignore_unknown_options": False})
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF pykueue up]")
@_SYSTEM
@click.option("--dry-run", is_flag=True, help="Print the unit, and write nothing.")
@outputs.with_report_output
@with_data_dir
def install(*, options: tuple[str, ...], is_system: bool, dry_run: bool, output: str, directory: DataDirectory) -> None:
    """Write a systemd unit, and enable and start it."""
    unit = _Service(name=_unit_name(directory), is_system=is_system)
    text = _unit_text(directory, options, "multi-user.target" if is_system else "default.target")
    report = {"unit": unit.name, "path": str(unit.path), "text": text}
    if dry_run:
        outputs.show_report(report, text.splitlines(), output)
        return
    try:
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        unit.path.write_text(text)
    except OSError as error:
        hint = "; run it as root, or without --system" if is_system else ""
        raise click.ClickException(f"{unit.path}: {error.strerror}{hint}") from None
    commands = unit.systemctl("daemon-reload"), unit.systemctl("enable", "--now", unit.name)
    lines = [f"{unit.path} written", *_run(*commands)]
    if not is_system:
        lines.append("It runs while you are logged in; `loginctl enable-linger` lets it run always.")
    outputs.show_report(report, lines, output)


@service.command()
@_SYSTEM
@outputs.with_report_output
@with_data_dir
def uninstall(*, is_system: bool, output: str, directory: DataDirectory) -> None:
    """Stop and remove the systemd unit.

    Data and running jobs stay; `pykueue down` ends the jobs.
    """
    unit = _Service(name=_unit_name(directory), is_system=is_system)
    if not unit.path.exists():
        raise click.ClickException(f"there is no {unit.path}")
    lines = _run(unit.systemctl("disable", "--now", unit.name))
    unit.path.unlink()
    lines += [*_run(unit.systemctl("daemon-reload")), f"{unit.path} removed"]
    outputs.show_report({"unit": unit.name, "path": str(unit.path)}, lines, output)


def _unit_name(directory: DataDirectory) -> str:
    return f"{directory.path.name}.service" if directory.is_named else "pykueue.service"


def _unit_text(directory: DataDirectory, options: tuple[str, ...], target: str) -> str:
    words = [sys.executable, "-P", "-m", "pykueue", "up", "--data-dir", str(directory.path), *options]
    return _UNIT.format(command=" ".join(map(_quoted, words)), target=target)


def _quoted(word: str) -> str:
    """The word as systemd reads it: % and $ stand for themselves."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or not word or set(word) & set(" \t'") else word


def _run(*commands: list[str]) -> list[str]:
    """Call systemctl; where systemd does not run, return lines that say what to call."""
    if not Path("/run/systemd/system").is_dir() or shutil.which("systemctl") is None:
        return ["systemd does not run here. Where it does:", *(f"  {' '.join(command)}" for command in commands)]
    for command in commands:
        completed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - systemctl
        if completed.returncode:
            raise click.ClickException(f"{' '.join(command)}: {completed.stderr.strip()}")
    return []
