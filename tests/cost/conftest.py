"""One server with three users, who do not trust each other."""

import subprocess
import sys

import pytest
from tests.e2e.conftest import start_server, stop_server
from tests.e2e.controller_process import environment

USERS = {"jane": ("--role", "cluster-admin"), "bob": ("--role", "cluster-admin"), "eve": ()}
"""The options of each user. Jane and Bob may do anything in their namespaces."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = start_server(tmp_path_factory.mktemp("cost") / "data")
    yield server
    stop_server(server)


@pytest.fixture(scope="module")
def users(server):
    """The kubeconfig and the namespace of each user."""
    configs = {}
    for name, roles in USERS.items():
        config = server.directory.parent / f"{name}.kubeconfig"
        options = ["--namespace", f"of-{name}", "--data-dir", str(server.directory), "--kubeconfig", str(config)]
        command = [sys.executable, "-m", "pykueue", "user", "add", name, *roles, *options]
        subprocess.run(command, check=True, capture_output=True, env=environment(), timeout=60)
        configs[name] = (config, f"of-{name}")
    return configs
