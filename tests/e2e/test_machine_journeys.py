"""Journeys of a user whose machine loses power, whose disk is full, or who leaves."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import uuid
from pathlib import Path

import pytest
from tests.e2e.controller_process import environment, wait_for
from tests.e2e.terminal import Terminal
from tools import old_data

from pykueue.cluster.runtimes import linux_processes

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not on PATH")

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def settings_of(home):
    """The environment of a user with this home, whose `pykueue` runs the sources."""
    command = home / "bin" / "pykueue"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m pykueue "$@"\n')
    command.chmod(0o755)
    settings = {name: value for name, value in environment().items() if not name.startswith("XDG_")}
    settings.pop("KUBECONFIG", None)
    return {**settings, "PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(home), "PS1": "$ "}


@pytest.fixture
def terminal(tmp_path):
    terminal = Terminal(tmp_path, settings_of(tmp_path))
    yield terminal
    terminal.call("pykueue down")
    terminal.close()


class Boot:
    """The machine between two power cuts: process ids begin at 1, and the boot id is new.

    The first process of a PID namespace is a tmux; with it the kernel kills everything else.
    """

    def __init__(self, home):
        socket, boot_id = f"pykueue-{uuid.uuid4().hex[:8]}", home / "boot_id"
        boot_id.write_text(f"{uuid.uuid4()}\n")
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if os.geteuid() != 0:
            namespaces.append("--map-root-user")
        script = f"mount --bind {boot_id} {BOOT_ID} && exec tmux -D -f /dev/null -L {socket}"
        self._process = subprocess.Popen(
            [*namespaces, "sh", "-c", script], env=settings_of(home), stderr=subprocess.PIPE, text=True
        )
        self.terminal = wait_for(lambda: self._open(home, socket), "a terminal of the machine opens")

    def _open(self, home, socket):
        if self._process.poll() is not None:
            pytest.skip(f"no machine of our own: {self._process.stderr.read().strip()}")
        with contextlib.suppress(subprocess.CalledProcessError):
            return Terminal(home, settings_of(home), socket)

    def cut_power(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def boot(tmp_path):
    boots = []

    def boot():
        boots.append(Boot(tmp_path))
        return boots[-1]

    yield boot
    for machine in boots:
        machine.cut_power()


def test_reboot(boot, tmp_path):
    machine = boot()
    terminal = machine.terminal
    terminal.run("pykueue up --detach --listen 127.0.0.1:0")
    terminal.until("is ready at")
    train = "sh -c 'echo start >> runs-$JOB; test -e finish || sleep 600'"
    for name, retries in (("once", 0), ("again", 2)):
        terminal.run(f"pykueue submit --name {name} --cpu 100m --retries {retries} --env JOB={name} -- {train}")
        wait_for((tmp_path / f"runs-{name}").exists, f"{name} runs")
    terminal.run("pykueue submit --name later --after again -- sh -c 'echo later > later'")
    terminal.until("job.batch/later created")
    machine.cut_power()

    (tmp_path / "finish").touch()
    terminal = boot().terminal
    terminal.run("pykueue status")
    terminal.until("Nothing runs with data in")
    assert "go on without it" not in terminal.text()
    terminal.run("clear; pykueue up --detach --listen 127.0.0.1:0")
    terminal.until("is ready at")
    terminal.run("pykueue wait again later once")
    for end in ("once failed", "again complete", "later complete"):
        terminal.until(f"job.batch/{end}")
    assert (tmp_path / "runs-again").read_text() == "start\nstart\n", "it was started once more"
    assert (tmp_path / "runs-once").read_text() == "start\n", "it has no retries"
    assert "The machine was restarted while the container ran" in terminal.call("pykueue explain job once")[0]


def test_upgrade_from_an_earlier_version(tmp_path, terminal):
    """`tools/old_data.py` made the directory; here the job that ran on meanwhile is a new process."""
    with tarfile.open(Path(__file__).parent / "data" / "0f01c7a7.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    (tmp_path / "nodes.yaml").write_text(json.dumps(old_data.NODES))
    (exit_file,) = [
        path for path in (tmp_path / "data").glob("room/pods/*/containers/*/*/exit") if not path.read_text()
    ]
    command = ["sh", "-c", 'read _; echo ended >> "$0/log"; printf 0 > "$0/exit"', str(exit_file.parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as job:
        (exit_file.parent / "process").write_text(linux_processes.stat_line(job.pid))
        (exit_file.parent / "boot").write_text(linux_processes.boot_id())
        options = "--no-isolation --listen 127.0.0.1:0 --nodes nodes.yaml"
        terminal.run(f"export PYKUEUE_DATA_DIR=$HOME/data; pykueue up --detach {options}")
        terminal.until("is ready at")
        assert "Job default/done succeeded" in terminal.call("pykueue explain job done")[0]
        assert "is running" in terminal.call("pykueue explain job runs")[0]
        job.communicate(b"\n")
    text, code = terminal.call("pykueue wait runs waits && pykueue logs runs && pykueue logs waits")
    assert code == 0, text
    assert "job.batch/waits complete\nbegan\nended\nlater" in text


@pytest.fixture
def disk(tmp_path):
    """A small file system, which only root may mount."""
    directory = tmp_path / "disk"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a disk can be mounted by root only")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_full_disk(tmp_path, disk, terminal):
    terminal.run("export PYKUEUE_DATA_DIR=$HOME/disk/data; pykueue up --detach --no-isolation --listen 127.0.0.1:0")
    terminal.until("is ready at")
    wait = "until test -e finish; do sleep 0.05; done; echo ended; touch ended"
    terminal.run(f"pykueue submit --name runs --cpu 100m -- sh -c 'echo began; {wait}'")
    terminal.until("job.batch/runs created")
    wait_for(lambda: list(disk.glob("data/room/pods/*/containers/*/*/process")), "the job runs")
    text, code = terminal.call("cat /dev/zero > disk/ballast; pykueue submit --name refused -- true")
    assert code == 1
    assert "No space is left for" in text
    assert "Free some space and try again" in text
    (tmp_path / "finish").touch()
    wait_for((tmp_path / "ended").exists, "the job ended while the disk was full")
    text, _ = terminal.call("pykueue status; rm disk/ballast; pykueue wait runs; pykueue explain job runs")
    assert "Job default/runs succeeded" in text
    assert "\nroom again\n" in terminal.call("pykueue submit -f --name after -- echo room again")[0]


def test_uninstall(tmp_path):
    """Nothing is left but the data directory, which `pykueue down` names."""
    environment_directory = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment_directory)], check=True)
    (packages,) = environment_directory.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    home = tmp_path / "home"
    home.mkdir()
    settings = {**settings_of(home), "PATH": f"{environment_directory / 'bin'}:{os.environ['PATH']}"}
    shutil.rmtree(home / "bin")
    for name in ("PYTHONPATH", "PYTHONUNBUFFERED"):
        settings.pop(name)
    terminal = Terminal(home, settings | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    try:
        source = Path(__file__).parents[2]
        install = "python -m pip install --quiet --no-deps --no-build-isolation --ignore-installed"
        text, code = terminal.call(f"{install} {source}")
        assert code == 0, text
        files = {path for path in environment_directory.rglob("*") if "pykueue" in path.name}
        assert environment_directory / "bin" / "pykueue" in files
        terminal.call("pykueue up --detach --no-isolation --listen 127.0.0.1:0; pykueue service install -- --bare")
        assert (home / ".config/systemd/user/pykueue.service").exists()
        terminal.call("pykueue submit --name left --cpu 100m -- sleep 600")
        assert "1 job was ended" in terminal.call("pykueue service uninstall; pykueue down")[0]
        text, code = terminal.call("pykueue down")
        assert f"Nothing runs with data in {home}/.local/share/pykueue." in text
        text, code = terminal.call("python -m pip uninstall --yes pykueue")
        assert code == 0, text
        assert not [path for path in environment_directory.rglob("*") if "pykueue" in path.name]
        data = home / ".local/share/pykueue"
        assert [path for path in home.rglob("*pykueue*") if not path.is_relative_to(data)] == []
        assert (data / "store.db").exists()
        assert not processes_of(home)
    finally:
        terminal.close()


def processes_of(home):
    """Processes with this home but for the shell of the terminal."""
    mark, pids = f"HOME={home}".encode(), []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (directory / "environ").read_bytes().split(b"\0"):
                pids.append((directory / "cmdline").read_text())
    return [line for line in pids if "tmux" not in line and line.strip("\0") != "sh"]


NVIDIA_SMI = """#!/bin/sh
case $1 in
*query-gpu=name*) printf 'A100, 40960\\nA100, 40960\\n' ;;
-L) printf 'GPU 0: A100 (UUID: GPU-a)\\n  MIG 1g.5gb  Device  0: (UUID: MIG-b)\\nGPU 1: A100 (UUID: GPU-c)\\n' ;;
esac
"""


def test_parts_of_gpus(tmp_path, terminal):
    (tmp_path / "bin" / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    text, _ = terminal.call("pykueue up --detach --no-isolation --listen 127.0.0.1:0 --gpu-shares 1:2")
    assert "2 gpu.shared, 1 mig-1g.5gb" in text
    show = "sh -c 'echo visible $CUDA_VISIBLE_DEVICES'"
    assert "\nvisible MIG-b\n" in terminal.call(f"pykueue submit -f --gpus mig-1g.5gb -- {show}")[0]
    hold = "sh -c 'echo visible $CUDA_VISIBLE_DEVICES; sleep 600'"
    for name in ("one", "two"):
        terminal.call(f"pykueue submit --name {name} --cpu 100m --gpus shared -- {hold}")
        logs = f"until pykueue logs {name} | grep visible; do sleep 0.1; done"
        assert "visible 1\n" in terminal.call(logs)[0], "both have GPU 1"
    text, _ = terminal.call("pykueue submit --name three --cpu 100m --gpus shared -- true; pykueue explain job three")
    assert "nvidia.com/gpu.shared: 1 asked, 0 unused, 1 short" in text
    text, code = terminal.call("pykueue submit --gpus half -- true")
    assert (code, "write for example 2, shared, or mig-1g.5gb:2" in text) == (2, True)
