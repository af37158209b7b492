"""A user's machine: a shell in tmux, `pykueue` on the PATH, and a `pykueue up` that serves it."""

import os
import shlex
import subprocess
import sys
import uuid

import pytest
from tests.e2e.conftest import start_server
from tests.e2e.controller_process import environment, free_port, wait_for

NVIDIA_SMI = """#!/bin/sh
case $1 in
*query-gpu=name*) printf 'A100, 40960\\nA100, 40960\\n' ;;
*query-gpu=index*) printf '0, GPU-a\\n1, GPU-b\\n' ;;
*query-compute-apps*) cat programs 2>/dev/null ;;
esac
"""
"""A machine with two GPUs, and programs on them as the file `programs` says."""


class Terminal:
    """A shell in tmux. What it shows is its whole history, without the colours."""

    def __init__(self, home, settings, server=""):
        """`server` names a running tmux; without it, this one starts its own."""
        self._server = ["-N", "-L", server] if server else ["-L", f"pykueue-{uuid.uuid4().hex[:8]}"]
        self._tmux("new-session", "-d", "-x", "120", "-y", "50", "-c", str(home), "sh", env=settings)

    def _tmux(self, *words, env=None):
        command = ["tmux", "-f", "/dev/null", *self._server, *words]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout

    def type(self, *keys):
        self._tmux("send-keys", *keys)

    def run(self, command):
        self.type("-l", command)
        self.type("Enter")

    def text(self):
        return self._tmux("capture-pane", "-p", "-J", "-S", "-2000")

    def until(self, text):
        try:
            wait_for(lambda: text in self.text(), f"the terminal shows {text!r}")
        except AssertionError as error:
            error.add_note(self.text())
            raise

    def call(self, command):
        """What the terminal shows when the command has ended, and its exit code."""
        mark = uuid.uuid4().hex[:8]
        self.run(f"clear; {command}; printf '\\n%s ' {mark} $?")
        self.until(f"\n{mark} ")
        text, _, rest = self.text().partition(f"\n{mark} ")
        return text, int(rest.split()[0])

    def close(self):
        self._tmux("kill-server")


class Machine:
    def __init__(self, home):
        self.home, self.port = home, free_port()
        (home / "pykueue").write_text(f'#!/bin/sh\nexec {sys.executable} -m pykueue "$@"\n')
        (home / "pykueue").chmod(0o755)
        (home / "nvidia-smi").write_text(NVIDIA_SMI.replace("programs", str(home / "programs")))
        (home / "nvidia-smi").chmod(0o755)
        self.start()

    def start(self):
        options = ("--runtime", "process", "--no-isolation", "--listen", f"127.0.0.1:{self.port}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{self.home}:{os.environ['PATH']}")
            self.server = start_server(self.home / "data", *options)

    @property
    def settings(self):
        path = f"{self.home}:{os.environ['PATH']}"
        kubeconfig = str(self.server.kubeconfig)
        return {**environment(), "PATH": path, "HOME": str(self.home), "KUBECONFIG": kubeconfig, "PS1": "$ "}

    def pykueue(self, line):
        """The result of a command without a terminal."""
        return subprocess.run(
            ["pykueue", *shlex.split(line)],
            cwd=self.home,
            env=self.settings,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
