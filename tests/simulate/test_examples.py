"""The reports of the examples: `simulate.txt` has a command and what it prints."""

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.cli.main import cli

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/simulate.txt"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_prints_its_expected_report(path, monkeypatch):
    command, _, expected = path.read_text().partition("\n")
    monkeypatch.chdir(path.parent)
    result = CliRunner().invoke(cli, shlex.split(command.removeprefix("$ pykueue ")))
    assert result.output == expected


def test_every_document_has_an_example():
    assert {path.parent.name[:3] for path in EXAMPLES} >= {"000", "001", "002", "003", "004"}
