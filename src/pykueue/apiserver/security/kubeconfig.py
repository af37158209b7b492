"""Kubeconfig files for users of the embedded API: one cluster, one user with a token, one context.

Written as JSON, which is YAML too, so that writing one needs no YAML library at start.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from pykueue.apiserver.security import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    server: str
    authority: bytes
    user: str
    token: str
    namespace: str = "default"
    cluster: str = "pykueue"


def write(path: Path, access: Access) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_private(path, render(access))


def render(access: Access) -> str:
    context = f"{access.user}@{access.cluster}"
    cluster = {
        "server": access.server,
        "certificate-authority-data": base64.b64encode(access.authority).decode(),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": access.cluster, "cluster": cluster}],
        "users": [{"name": access.user, "user": {"token": access.token}}],
        "contexts": [
            {
                "name": context,
                "context": {"cluster": access.cluster, "user": access.user, "namespace": access.namespace},
            }
        ],
        "current-context": context,
    }
    return json.dumps(config, indent=2) + "\n"


def read(path: Path) -> Access:
    """Read back a file that `write` wrote."""
    config = json.loads(path.read_text())
    cluster = config["clusters"][0]
    return Access(
        server=cluster["cluster"]["server"],
        authority=base64.b64decode(cluster["cluster"]["certificate-authority-data"]),
        user=config["users"][0]["name"],
        token=config["users"][0]["user"]["token"],
        namespace=config["contexts"][0]["context"]["namespace"],
        cluster=cluster["name"],
    )
