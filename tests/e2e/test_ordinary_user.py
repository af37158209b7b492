"""`pykueue up` by a user without any privileges, with an open umask, and in foreign directories."""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

NOBODY = 65534
ROOT = Path(__file__).parents[2]
PYTHONS = (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}")
PREFIX = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--bounding-set=-all"]


def usable_python():
    """A Python of our version that the user may run, with our packages."""
    paths = os.pathsep.join((str(ROOT / "src"), sysconfig.get_path("purelib")))
    for python in PYTHONS:
        command = [*PREFIX, "env", f"PYTHONPATH={paths}", python, "-c", "import pykueue.cli.main"]
        try:
            done = subprocess.run(command, capture_output=True, cwd="/", check=False)
        except OSError:
            return None
        if done.returncode == 0:
            return [*PREFIX, "env", f"PYTHONPATH={paths}", python, "-P", "-m", "pykueue"]
    return None


@pytest.fixture(scope="module")
def command():
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return usable_python() or pytest.skip("no Python that another user may run")


@pytest.fixture
def home():
    """A home directory of the user, who could not reach one below a directory of pytest."""
    with tempfile.TemporaryDirectory(prefix="pykueue-home-") as directory:
        os.chown(directory, NOBODY, NOBODY)
        yield Path(directory)


@pytest.fixture
def foreign():
    """A directory of root that the user can read."""
    with tempfile.TemporaryDirectory(prefix="pykueue-foreign-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def run(command, home, *arguments):
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "USER": "nobody"}
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, cwd=home, env=environment, umask=0, check=False
    )


def test_a_user_without_privileges_has_a_cluster_that_is_closed_to_others(command, home):
    started = run(command, home, "up", "--detach", "--listen", "127.0.0.1:0")
    assert started.returncode == 0, started.stderr
    try:
        job = run(command, home, "run", "--", "id", "-u")
        assert (job.returncode, job.stdout.split()) == (0, [str(NOBODY)]), job.stderr
        made = [path for path in home.rglob("*") if not path.is_symlink()]
        assert made
        assert [str(path) for path in made if path.stat().st_mode & 0o022] == []
        data = next(path for path in made if path.name == "up.log").parent
        above = [path for path in data.parents if path.is_relative_to(home) and path != home]
        assert [str(path) for path in (data, *above) if path.stat().st_mode & 0o077] == []
    finally:
        assert run(command, home, "down").returncode == 0


@pytest.mark.parametrize("detach", [(), ("--detach",)], ids=["foreground", "detached"])
def test_foreign_directories_are_refused(command, home, foreign, detach):
    (home / "link").symlink_to(foreign)
    for directory in (foreign, home / "link", foreign / "new", Path("/root/new")):
        done = run(command, home, "up", *detach, "--data-dir", str(directory), "--listen", "127.0.0.1:0")
        assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
        assert "another directory" in done.stderr
    assert list(foreign.iterdir()) == []
