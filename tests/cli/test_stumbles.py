"""What newcomers type, and the answer that helps them on."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pykueue.cli import options
from pykueue.cli.main import cli


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("help", "`pykueue --help` prints the help."),
        ("help submit", "`pykueue submit --help` prints the help."),
        ("create help", "`pykueue create --help` prints the help."),
        ("list jobs", "A job is its workload: `pykueue list workload`."),
        ("stop job train", "A job is its workload: `pykueue stop workload train`."),
        ("submit --time 2 -- true", "'2' has no unit; write 2s, 2m or 2h"),
        ("submit --workdir /no/such -- true", "Invalid value for --directory / --workdir: /no/such is not"),
        ("wait train --timeout soon", "'soon' is not a duration; write for example 90s"),
    ],
)
def test_error_names_what_to_write(words, answer):
    result = CliRunner().invoke(cli, words.split(), prog_name="pykueue")
    assert result.exit_code == 2
    assert answer in result.output


@pytest.mark.parametrize(("text", "seconds"), [("0.5", 0.5), ("0", 0), ("90", 90), ("2m", 120), ("1h30m", 5400)])
def test_timeout_is_a_number_of_seconds_or_a_duration(text, seconds):
    assert options.SecondsOption().convert(text, None, None) == seconds


def run(cluster, *words):
    """The command where the locale has ASCII only."""
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "KUBECONFIG": str(cluster.kubeconfig)}
    command = [sys.executable, "-m", "pykueue", *words]
    return subprocess.run(command, env={**os.environ, **settings}, capture_output=True, check=False)


def test_terminal_without_utf8_shows_the_board(cluster):
    result = run(cluster, "top", "--once")
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize(
    "words",
    [("explain", "job"), ("create", "resourceflavor"), ("create", "localqueue", "-i", "-c", "any")],
    ids=" ".join,
)
def test_text_that_is_not_utf8_is_refused(cluster, words):
    result = run(cluster, *words, b"gr\xfcn")
    assert result.returncode == 1
    assert b"Traceback" not in result.stderr
    assert result.stderr.startswith(b"Error: ")
