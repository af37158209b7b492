"""`pykueue controller` in a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
DEADLINE_SECONDS = 60


def environment():
    return {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"}


def wait_for(claim, what, seconds=DEADLINE_SECONDS):
    """What the claim returns once it is true; both ends are real processes, so there is nothing to watch in here."""
    deadline = time.monotonic() + seconds
    while not (found := claim()):
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.05)
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Controller:
    process: subprocess.Popen
    port: int
    log: Path

    def page(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def leads(self):
        return "kueue_" in self.page("metrics")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(timeout=DEADLINE_SECONDS)

    def end(self):
        """Stops it if it still runs; it must not have failed on the way."""
        if self.process.poll() is None:
            self.stop()
        said = self.log.read_text()
        assert "Traceback" not in said, said


def start_controller(kubeconfig, directory, configuration, *options):
    """It listens on ports of its own, whatever the configuration says."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    document = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        **configuration,
        "health": {"healthProbeBindAddress": address},
        "metrics": {"bindAddress": address},
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": free_port()},
    }
    file = directory / f"configuration-{port}.yaml"
    file.write_text(json.dumps(document))
    log = directory / f"controller-{port}.log"
    command = [sys.executable, "-m", "pykueue", "controller", "--kubeconfig", str(kubeconfig), "--config", str(file)]
    with log.open("w") as stderr:
        process = subprocess.Popen([*command, *options], stderr=stderr, env=environment())
    return Controller(process=process, port=port, log=log)
