"""One server with four users, who do not trust each other."""

import asyncio
import subprocess
import sys

import pytest
from tests.cost.flood import session_of
from tests.e2e.conftest import start_server, stop_server
from tests.e2e.controller_process import environment

USERS = {"jane": ("--role", "cluster-admin"), "bob": ("--role", "cluster-admin"), "carol": (), "eve": ()}
"""The options of each user. Jane and Bob may do anything in their namespaces."""
RBAC = "rbac.authorization.k8s.io"
CLUSTER_RESOURCES = {
    "kueue.x-k8s.io": ["clusterqueues", "cohorts", "resourceflavors", "workloadpriorityclasses", "admissionchecks"],
    "scheduling.k8s.io": ["priorityclasses"],
    "resource.k8s.io": ["deviceclasses"],
    "apiextensions.k8s.io": ["customresourcedefinitions"],
    "": ["nodes", "nodes/status"],
}
"""What Carol may do anything with, in the whole cluster."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = start_server(tmp_path_factory.mktemp("cost") / "data", "--runtime", "simulated")
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
    asyncio.run(_give_cluster_rights(server, "carol"))
    configs["carol"] = (configs["carol"][0], "")
    return configs


async def _give_cluster_rights(server, user):
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": ["*"]} for group, resources in CLUSTER_RESOURCES.items()
    ]
    role = {"metadata": {"name": user}, "rules": [*rules, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]}]}
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": user}],
    }
    session = session_of(server.kubeconfig, 1)
    async with session:
        for plural, obj in (("clusterroles", role), ("clusterrolebindings", binding)):
            async with session.post(f"/apis/{RBAC}/v1/{plural}", json=obj) as answer:
                assert answer.status == 201, await answer.text()
