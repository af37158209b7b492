"""Every command starts fast, because it imports little: modules are counted, not milliseconds."""

import json
import os
import subprocess
import sys

import pytest

from pykueue.cli import main

_COUNT = """
import atexit, json, os, sys

def count():
    ours = sum(name.startswith("pykueue.") for name in sys.modules)
    roots = {name.partition(".")[0] for name, module in sys.modules.items() if getattr(module, "__file__", None)}
    libraries = sorted(roots - sys.stdlib_module_names - {"pykueue", "sitecustomize", "_distutils_hack"})
    stream.write(json.dumps({"ours": ours, "libraries": libraries, "asyncio": "asyncio" in sys.modules,
                             "slow": sorted(sys.modules.keys() & {"difflib", "sqlite3", "tempfile"})}))
    stream.flush()

stream = os.fdopen(int(sys.argv.pop(1)), "w")
atexit.register(count)
from pykueue.cli.main import main
main()
"""
_SMALL = {"click", "msgspec", "typing_extensions"}
_WITH_FILES = {*_SMALL, "yaml", "_yaml"}


def imports(*words, environment=None):
    reader, writer = os.pipe()
    with os.fdopen(reader) as stream:
        result = subprocess.run(
            [sys.executable, "-c", _COUNT, str(writer), *words],
            pass_fds=[writer],
            capture_output=True,
            text=True,
            env={**os.environ, "COVERAGE_PROCESS_START": "", **(environment or {})},
            check=False,
        )
        os.close(writer)
        text = stream.read()
    assert text, result.stderr
    return json.loads(text), result


def test_list_of_commands_imports_no_command():
    count, result = imports("--help")
    assert "submit" in result.stdout
    assert count["libraries"] == ["click"]
    assert not count["asyncio"]
    assert count["ours"] <= 6


@pytest.mark.parametrize("command", ["submit", "up", "top", "explain", "lint", "user"])
def test_help_of_a_command_needs_no_server_or_drawing(command):
    count, result = imports(command, "--help")
    assert result.returncode == 0
    assert set(count["libraries"]) <= _WITH_FILES
    assert count["ours"] <= 35


@pytest.mark.parametrize(
    "words",
    [
        ("list", "workload"),
        ("submit", "--name", "start-up", "--queue", "any", "--", "true"),
        ("logs", "nothing"),
        ("cancel", "nothing"),
        ("delete", "workload", "nothing"),
        ("version",),
    ],
    ids=" ".join,
)
def test_commands_on_a_cluster_import_a_small_client(cluster, words):
    count, _ = imports(*words, environment={"KUBECONFIG": str(cluster.kubeconfig)})
    assert set(count["libraries"]) <= _SMALL
    assert count["ours"] <= 60
    assert count["slow"] == []


def test_status_of_a_machine_without_cluster(tmp_path):
    count, result = imports("status", "--data-dir", str(tmp_path))
    assert result.returncode == 3
    assert set(count["libraries"]) <= _SMALL
    assert count["ours"] <= 60


def test_table_has_the_first_help_line_of_every_command():
    context = main.cli.make_context("pykueue", [], resilient_parsing=True)
    for name, (_, summary) in main.COMMANDS.items():
        assert main.cli.get_command(context, name).get_short_help_str(limit=100) == summary
