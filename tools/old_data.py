"""Keep a data directory of an earlier version, for the test of the upgrade.

    python tools/old_data.py 0f01c7a7 tests/e2e/data/0f01c7a7.tar.gz

runs `pykueue up` of that commit on a new directory, with a job that has finished, one that runs
and one that waits for it. Then it stops `pykueue up`, which leaves the job running, packs the
directory, and ends the job. The node has a name of its own, so that the directory belongs to any
machine; keys and tokens in it are of no use anywhere else, and a job, which keeps the environment
of `submit`, has next to none.
"""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

NODES = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "workstation"},
    "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}},
}
_LEFT_OUT = {"lock", "store.db-shm"}


def main() -> None:
    commit, target = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="pykueue-") as name:
        home = Path(name)
        archive = subprocess.run(["git", "archive", commit, "src"], check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as source:
            source.extractall(home, filter="data")
        (home / "nodes.yaml").write_text(json.dumps(NODES))
        _make(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(target, "w:gz") as packed:
            packed.add(
                home / "data", "data", filter=lambda member: None if Path(member.name).name in _LEFT_OUT else member
            )


def _make(home: Path) -> None:
    settings = {"PATH": os.defpath, "HOME": "/", "PYTHONPATH": "src", "KUBECONFIG": "data/kubeconfig"}

    def start(*words: str, **options: int) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "pykueue", *words]
        return subprocess.Popen(command, env=settings, cwd=home, text=True, **options)  # type: ignore[call-overload,no-any-return]

    def run(*words: str) -> str:
        process = start(*words, stdout=subprocess.PIPE)
        output, _ = process.communicate()
        assert process.returncode == 0, words
        return output

    options = ("--runtime", "process", "--no-isolation", "--listen", "127.0.0.1:0", "--nodes", "nodes.yaml")
    server = start("up", "--data-dir", "data", *options, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert "is ready" in server.stdout.readline()
    run("create", "resourceflavor", "default")
    run("create", "clusterqueue", "default", "--nominal-quota", "default:cpu=2;memory=4Gi")
    run("create", "localqueue", "default", "--clusterqueue", "default")
    run("submit", "-f", "--name", "done", "--workdir", "/", "--", "echo", "finished")
    run("submit", "--name", "runs", "--cpu", "100m", "--workdir", "/", "--", "sh", "-c", "echo began; sleep 600")
    run("submit", "--name", "waits", "--after", "runs", "--workdir", "/", "--", "echo", "later")
    while "began" not in run("logs", "runs"):
        time.sleep(0.2)
    server.send_signal(signal.SIGTERM)
    server.communicate()
    for process in (home / "data").glob("room/pods/*/containers/*/*/process"):
        if not (process.parent / "exit").read_text():
            os.killpg(int(process.read_text().split()[0]), signal.SIGKILL)


if __name__ == "__main__":
    main()
