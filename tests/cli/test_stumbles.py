"""What newcomers type, and the answer that helps them on."""

import io
import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from rich.console import Console

import pykueue
from pykueue.apiserver.store import lock
from pykueue.cli import options
from pykueue.cli.main import cli
from pykueue.dashboard import drawing, rows


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


def test_ctrl_c_ends_a_command_as_shells_expect(monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("pykueue.cli.connection.ClusterAccess.run", interrupted)
    result = CliRunner().invoke(cli, ["wait", "train"])
    assert (result.exit_code, result.output) == (130, "\n")


@pytest.mark.parametrize("width", [50, 60, 80])
def test_narrow_board_cuts_names_and_not_times(width):
    values = {"state": "finished", "namespace": "a-long-namespace", "queue": "a-long-queue", "job": "j" * 40}
    values |= {"requests": {"cpu": 12, "nvidia.com/gpu": 128, "memory": 2**40}, "created": 1, "admitted": 1}
    row = tuple((values | {"finished": 3600}).get(field, "") for field in rows.WORKLOAD_FIELDS)
    screen = io.StringIO()
    Console(width=width, file=screen).print(drawing.workload_table([row], 0.0, width))
    line = screen.getvalue().splitlines()[-1]
    assert "finished" in line
    assert line.rstrip().endswith("59m59s")


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


def test_version_needs_no_cluster(tmp_path, monkeypatch):
    for name in ("KUBECONFIG", "PYKUEUE_DATA_DIR", "PYKUEUE_NAME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    result = CliRunner().invoke(cli, ["version"])
    assert (result.exit_code, result.stdout) == (0, f"Client Version: v{pykueue.__version__}\n")
    result = CliRunner().invoke(cli, ["version", "-o", "json"])
    assert json.loads(result.stdout) == {"clientVersion": f"v{pykueue.__version__}", "images": []}
    named = CliRunner().invoke(cli, ["version", "--kubeconfig", str(tmp_path / "no-such")])
    assert (named.exit_code, "no-such" in named.stderr) == (1, True)


def test_the_package_lists_what_it_offers():
    assert {"AsyncCluster", "Cluster", "ClusterError", "WaitError", "connect", "__version__"} <= set(dir(pykueue))
    assert not {"Any", "importlib"} & set(dir(pykueue))


@pytest.fixture
def named_cluster(tmp_path, monkeypatch):
    """A data directory of a cluster `copy` that looks as if it ran here."""
    for name in ("KUBECONFIG", "PYKUEUE_DATA_DIR", "PYKUEUE_NAME", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    directory = tmp_path / "pykueue-copy"
    directory.mkdir(mode=0o700)
    (directory / "kubeconfig").write_text("")
    held = lock.DirectoryLock(directory)
    yield directory
    held.release()


def test_clusters_with_names_are_named_where_no_other_runs(named_cluster):
    result = CliRunner().invoke(cli, ["logs", "s1"])
    assert result.exit_code == 1
    assert "no cluster without a name runs here; with a name: copy. `export PYKUEUE_NAME=copy` selects" in result.stderr


def test_replay_reads_the_cluster_of_the_kubeconfig(named_cluster, monkeypatch):
    assert f"{named_cluster}/" not in CliRunner().invoke(cli, ["replay"]).stderr
    monkeypatch.setenv("KUBECONFIG", str(named_cluster / "kubeconfig"))
    assert f"{named_cluster}/" in CliRunner().invoke(cli, ["replay"]).stderr
