"""Every command starts fast, because it imports little: modules are counted, not milliseconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykueue.cli import main

_COUNT = """
import json, os, sys

def count():
    ours = sum(name.startswith("pykueue.") for name in sys.modules)
    roots = {name.partition(".")[0] for name, module in sys.modules.items() if getattr(module, "__file__", None)}
    libraries = sorted(roots - sys.stdlib_module_names - {"pykueue", "sitecustomize", "_distutils_hack"})
    stream.write(json.dumps({"ours": ours, "libraries": libraries, "asyncio": "asyncio" in sys.modules,
                             "slow": sorted(sys.modules.keys() & {"difflib", "sqlite3", "tempfile"})}))
    stream.flush()

stream = os.fdopen(int(sys.argv.pop(1)), "w")
from pykueue.cli.main import main
try:
    main()
finally:
    count()
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


def test_apply_imports_neither_the_engine_nor_all_kinds(cluster, tmp_path):
    path = tmp_path / "flavor.yaml"
    path.write_text("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: start-up}}")
    count, result = imports("apply", "-f", str(path), environment={"KUBECONFIG": str(cluster.kubeconfig)})
    assert result.stdout == "resourceflavor.kueue.x-k8s.io/start-up created\n"
    assert set(count["libraries"]) <= _WITH_FILES
    assert count["ours"] <= 60


@pytest.mark.parametrize(
    ("words", "most", "has_loop"),
    [
        (("validate", "-f"), 125, False),
        (("convert", "-f"), 20, False),
        (("manifests", "policies", "--config"), 150, False),
        (("lint", "-f"), 290, True),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_on_files_import_neither_controllers_nor_libraries_of_servers(tmp_path, words, most, has_loop):
    path = tmp_path / "object.yaml"
    path.write_text(
        "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration}"
        if words[-1] == "--config"
        else "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: spot}}"
    )
    count, result = imports(*words, str(path))
    assert result.returncode == 0, result.stderr
    assert set(count["libraries"]) <= _WITH_FILES
    assert count["ours"] <= most
    assert count["asyncio"] is has_loop
    assert "tempfile" not in count["slow"]


def test_users_are_listed_without_the_server(cluster):
    count, result = imports("user", "list", "--data-dir", str(cluster.kubeconfig.parent))
    assert "pykueue-admin" in result.stdout
    assert set(count["libraries"]) <= _SMALL
    assert count["ours"] <= 60


def test_status_of_a_machine_without_cluster(tmp_path):
    count, result = imports("status", "--data-dir", str(tmp_path))
    assert result.returncode == 3
    assert set(count["libraries"]) <= _SMALL
    assert count["ours"] <= 60


def test_table_has_the_first_help_line_of_every_command():
    context = main.cli.make_context("pykueue", [], resilient_parsing=True)
    for name, (_, summary) in main.COMMANDS.items():
        assert main.cli.get_command(context, name).get_short_help_str(limit=100) == summary


def test_process_ends_with_the_exit_code_of_the_command(tmp_path):
    words = [sys.executable, "-m", "pykueue", "status", "--data-dir", str(tmp_path)]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (3, "")
    assert result.stdout.startswith("Nothing runs")


def test_handlers_of_the_end_of_the_process_run():
    code = "import atexit\nfrom pykueue.cli import main\nmain.cli.callback = lambda: atexit.register(print, 'last')\n"
    code += "import sys; sys.argv = ['pykueue', 'completion', 'bash']\nmain.main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.endswith("last\n")


def test_lost_output_is_an_error():
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([sys.executable, "-m", "pykueue", "--help"], stdout=full, stderr=-1, check=False)
    assert result.returncode != 0


def test_reader_that_went_away_is_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run([sys.executable, "-m", "pykueue", "--help"], stdout=writer, stderr=-1, check=False)
    os.close(writer)
    assert b"Traceback" not in result.stderr
