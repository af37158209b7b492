"""Every command that prints a result prints it as JSON, too."""

import json

import click
import pytest
from click.testing import CliRunner
from tests.cli.test_help import COMMANDS

from pykueue.cli.main import cli

WITHOUT_JSON = {
    "attach": "it connects a terminal",
    "completion": "it prints a shell script",
    "controller": "it runs until it is stopped",
    "demo": "it draws on a terminal",
    "describe": "its options are those of kubectl",
    "edit": "its options are those of kubectl",
    "get": "its options are those of kubectl, which has -o json",
    "logs": "it prints what a command printed",
    "patch": "its options are those of kubectl",
    "populator": "it runs until it is stopped",
    "priority-booster": "it runs until it is stopped",
    "run": "it connects a terminal",
    "up": "it runs until it is stopped; `status -o json` says the rest",
}


def formats(command):
    for option in command.params:
        if isinstance(option, click.Option) and "--output" in option.opts:
            return option.type.choices if isinstance(option.type, click.Choice) else ["json"]
    return []


def test_every_command_prints_json_or_has_a_reason():
    runnable = {
        name.removeprefix("pykueue "): command
        for name, command in COMMANDS.items()
        if name.startswith("pykueue ") and (not isinstance(command, click.Group) or command.invoke_without_command)
    }
    assert {name for name, command in runnable.items() if "json" not in formats(command)} == WITHOUT_JSON.keys()


FLAVOR = "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: spot}}"


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("convert -f flavor.yaml -o json", "items"),
        ("manifests rbac -o json", "items"),
        ("down --data-dir empty -o json", "wasRunning"),
        ("service install --dry-run -o json", "text"),
    ],
)
def test_commands_without_a_cluster_print_json(tmp_path, monkeypatch, words, field):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flavor.yaml").write_text(FLAVOR)
    result = CliRunner().invoke(cli, words.split())
    assert result.exit_code == 0, result.output
    assert field in json.loads(result.stdout)


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ("version", 0, {"images": []}),
        ("cancel nobody", 1, {"jobs": [{"name": "nobody", "result": "missing"}]}),
        ("delete resourceflavor spot", 0, {"deleted": ["resourceflavor.kueue.x-k8s.io/spot"], "dryRun": "none"}),
    ],
)
def test_commands_on_a_cluster_print_json(cluster, words, code, expected):
    if "spot" in words:
        assert cluster.pykueue("create", "resourceflavor", "spot").exit_code == 0
    result = cluster.pykueue(*words.split(), "-o", "json")
    assert result.exit_code == code, result.output
    assert json.loads(result.stdout).items() >= expected.items()


def test_backup_and_restore_print_json(cluster, tmp_path):
    archive = str(tmp_path / "backup")
    words = (
        ("backup", archive, "--data-dir", str(cluster.kubeconfig.parent)),
        ("restore", archive, "--data-dir", str(tmp_path / "new")),
    )
    counts = []
    for command in words:
        result = CliRunner().invoke(cli, [*command, "-o", "json"])
        assert result.exit_code == 0, result.output
        counts.append(json.loads(result.stdout)["objects"])
    assert counts[0] == counts[1] > 0
