"""The clusters of a story for MultiKueue: the manager, and workers behind a network that can fail."""

import copy
import shlex
import subprocess
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tools.stories import shorthand
from tools.stories.cluster import ApiClient
from tools.stories.network import Proxy

Json = dict[str, Any]

MANAGER = "manager"
SECRETS = "/api/v1/namespaces/kueue-system/secrets"
"""Kueue reads the kubeconfigs of workers from its own namespace."""
CONFIG = "workers"
CHECK = "multikueue"
QUEUE = "q"
_CONTROLLER = "kueue.x-k8s.io/multikueue"


class Worker:
    """A worker cluster: the player talks to it directly, the manager through the proxy."""

    def __init__(self, kubeconfig: Path) -> None:
        self.api = ApiClient(kubeconfig)
        self._kubeconfig = yaml.safe_load(kubeconfig.read_text())
        url = urllib.parse.urlsplit(self._kubeconfig["clusters"][0]["cluster"]["server"])
        self.proxy = Proxy((url.hostname or "", url.port or 443))

    def kubeconfig(self, patch: Json | None = None) -> str:
        """The kubeconfig that the manager gets; `patch` is merged into its only user or cluster."""
        document = copy.deepcopy(self._kubeconfig)
        server = f"https://127.0.0.1:{self.proxy.port}"
        document["clusters"][0]["cluster"]["server"] = server
        for field, change in (patch or {}).items():
            entry = document[f"{field}s"][0]
            entry[field] = shorthand.merge(entry[field], change)
        return yaml.safe_dump(document)


class Fleet:
    def __init__(self, names: list[str], kubeconfigs: Mapping[str, Path], control: str = "") -> None:
        self.workers = {name: Worker(kubeconfigs[name]) for name in names}
        self._control = control

    def close(self) -> None:
        for worker in self.workers.values():
            worker.proxy.close()

    def control(self, name: str, action: str) -> None:
        """Stop, start, back up or restore a worker with the command of the option --control."""
        subprocess.run([*shlex.split(self._control), name, action], check=True)


def worker_objects(options: Json, name: str) -> list[Json]:
    return [{"flavor": "default"}, _queue(options, name), {"lq": {"name": QUEUE, "cq": QUEUE}}]


def manager_objects(options: Json, workers: list[str]) -> list[Json]:
    """MultiKueueClusters, their configuration and check, and a queue that uses the check."""
    queue = _queue(options, MANAGER)
    queue["cq"]["checks"] = [CHECK]
    return [
        *({"worker": name} for name in workers),
        {"workers": {"name": CONFIG, "clusters": options.get("clusters", workers)}},
        {"check": {"name": CHECK, "controller": _CONTROLLER, "config": CONFIG}},
        {"flavor": "default"},
        queue,
        {"lq": {"name": QUEUE, "cq": QUEUE}},
    ]


def _queue(options: Json, name: str) -> Json:
    amounts = {"cpu": 4, **(options.get("quota") or {}).get(name, {})}
    fields = {"name": QUEUE, "quota": {"default": amounts}}
    if "preemption" in options:
        fields["preemption"] = options["preemption"]
    return {"cq": fields | (options.get("queue") or {}).get(name, {})}
