"""The documentation as a site: it builds without a warning, and its commands run."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mkdocs.commands import build
from mkdocs.config import load_config
from tests.e2e.controller_process import environment
from tools import reference

ROOT = Path(__file__).parents[2]
WORKSTATION = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "workstation.md").read_text(), re.DOTALL)


@pytest.mark.filterwarnings("ignore")  # of mkdocs and its theme
def test_site_has_no_warning_and_every_page(tmp_path, caplog):
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path))
    with caplog.at_level(logging.WARNING, logger="mkdocs"):
        build.build(config)
    assert caplog.messages == []
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.parent.relative_to(tmp_path) for path in tmp_path.rglob("index.html")}
    assert pages - built - {Path("index")} == set()


@pytest.mark.parametrize("name", reference.PAGES)
def test_reference_is_up_to_date(name):
    written = (ROOT / "docs" / "reference" / name).read_text()
    assert written == reference.PAGES[name](), "run python tools/reference.py"


def test_commands_of_the_workstation_run(tmp_path):
    """One `up` for the whole page: it starts in the first block and ends in the last."""
    (tmp_path / "pykueue").write_text(f'#!/bin/sh\nexec {sys.executable} -m pykueue "$@"\n')
    (tmp_path / "pykueue").chmod(0o755)
    settings = {name: value for name, value in environment().items() if not name.startswith(("KUBE", "PYKUEUE"))}
    settings |= {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{settings['PATH']}", "PYKUEUE_NAME": "page"}
    script = "set -e\n" + "".join(WORKSTATION)
    try:
        result = subprocess.run(
            ["sh", "-c", script], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False
        )
    finally:
        subprocess.run(["pykueue", "down"], cwd=tmp_path, env=settings, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr + result.stdout
    for text in ("training", "job.batch/report complete", "Admitted", "CPU HOURS", "day,jobs,finished"):
        assert text in result.stdout


def test_defaults_of_repeated_options_are_words():
    commands = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text()
    assert "may be repeated. Default: `edit`, `kueue-batch-user-role`." in commands
    assert "Default: `(" not in commands
