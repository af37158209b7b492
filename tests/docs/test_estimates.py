"""The scores in docs/estimates.md are those that the commands print."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.cli.main import cli

ROOT = Path(__file__).parents[2]
BLOCK = re.search(r"```console\n(.*?)```", (ROOT / "docs" / "estimates.md").read_text(), re.DOTALL)[1]
COMMANDS = [part.partition("\n")[::2] for part in BLOCK.split("$ pykueue ")[1:]]


@pytest.mark.torture
@pytest.mark.parametrize(("command", "expected"), COMMANDS, ids=["examples", "generated"])
def test_a_score_is_what_the_document_says(command, expected, monkeypatch):
    monkeypatch.chdir(ROOT / "examples" / "planning")
    assert CliRunner().invoke(cli, shlex.split(command)).output == expected
