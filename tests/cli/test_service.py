"""`pykueue service`: the unit that systemd starts."""

import shutil
import subprocess

import pytest
from click.testing import CliRunner

from pykueue.cli.main import cli


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "PYKUEUE_DATA_DIR", "PYKUEUE_NAME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def unit(*words):
    result = CliRunner().invoke(cli, ["service", "install", "--dry-run", *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_jobs_outlive_the_service(home):
    assert "\nKillMode=process\n" in unit()


def test_options_reach_pykueue_up(home):
    [line] = [line for line in unit("--name", "lab", "--", "--nodes", "my 100% $x").splitlines() if "ExecStart" in line]
    assert line.endswith(f'up --data-dir {home}/.local/share/pykueue-lab --nodes "my 100%% $$x"')


def test_unit_is_valid_for_systemd(home, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    path = tmp_path / "pykueue.service"
    path.write_text(unit("--system"))
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    assert "pykueue.service" not in done.stderr


def test_user_service_is_written_and_removed(home):
    path = home / ".config" / "systemd" / "user" / "pykueue.service"
    assert CliRunner().invoke(cli, ["service", "install"]).exit_code == 0
    assert path.exists()
    assert CliRunner().invoke(cli, ["service", "uninstall"]).exit_code == 0
    assert not path.exists()
