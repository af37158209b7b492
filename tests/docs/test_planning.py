"""Every command of docs/planning.md runs as it is printed."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue import simulate
from pykueue.cli.main import cli

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "planning.md").read_text()
COMMANDS = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ ")
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("queues.yaml", "jobs.csv"):
        shutil.copy(ROOT / "examples" / "planning" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_guide(folder, command):
    name, *words = shlex.split(command)
    assert name == "pykueue"
    if "diff" in words or ".." in command:
        words += ["--processes", "1"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert "WAIT" in result.output.upper()


def test_the_python_of_the_guide(folder):
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL).group(1)
    names: dict = {}
    exec(compile(code, "planning.md", "exec"), names)
    assert simulate.svg(names["result"], "used").startswith("<svg")
    assert len(names["result"].job_rows()) == 400
