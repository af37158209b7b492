"""`pykueue controller` in another process."""

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
    """Poll until `claim` returns a true value, and return that."""
    deadline = time.monotonic() + seconds
    while not (result := claim()):
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.05)
    return result


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
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=5) as response:
                return response.read().decode()
        except OSError:
            return ""

    def leads(self):
        return "the controllers start" in self.log.read_text()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(timeout=DEADLINE_SECONDS)

    def end(self):
        """Stop the process if it still runs. Its log must contain no traceback."""
        if self.process.poll() is None:
            self.stop()
        log = self.log.read_text()
        assert "Traceback" not in log, log


def start_controller(kubeconfig, directory, configuration, *options):
    """Start the process. It listens on free ports instead of those of the configuration."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    document = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        **configuration,
        "health": {"healthProbeBindAddress": address},
        "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": free_port()},
    }
    file = directory / f"configuration-{port}.yaml"
    file.write_text(json.dumps(document))
    log = directory / f"controller-{port}.log"
    command = [sys.executable, "-m", "pykueue", "controller", "--kubeconfig", str(kubeconfig), "--config", str(file)]
    with log.open("w") as stderr:
        process = subprocess.Popen([*command, *options], stderr=stderr, env=environment())
    return Controller(process=process, port=port, log=log)
