"""Kubeconfig files for users of the embedded API: one cluster, one user with a token, one context.

They are written as JSON, which is also YAML, so that the start needs no YAML library.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from pykueue.apiserver.security import files


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCredentials:
    server: str
    authority: bytes
    user: str
    token: str
    namespace: str = "default"
    cluster: str = "pykueue"


def write(path: Path, credentials: ClusterCredentials) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_private(path, render(credentials))


def render(credentials: ClusterCredentials) -> str:
    context = f"{credentials.user}@{credentials.cluster}"
    cluster = {
        "server": credentials.server,
        "certificate-authority-data": base64.b64encode(credentials.authority).decode(),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": credentials.cluster, "cluster": cluster}],
        "users": [{"name": credentials.user, "user": {"token": credentials.token}}],
        "contexts": [
            {
                "name": context,
                "context": {
                    "cluster": credentials.cluster,
                    "user": credentials.user,
                    "namespace": credentials.namespace,
                },
            }
        ],
        "current-context": context,
    }
    return json.dumps(config, indent=2) + "\n"


def read(path: Path) -> ClusterCredentials:
    """Read back a file that `write` wrote."""
    config = json.loads(path.read_text())
    cluster = config["clusters"][0]
    return ClusterCredentials(
        server=cluster["cluster"]["server"],
        authority=base64.b64decode(cluster["cluster"]["certificate-authority-data"]),
        user=config["users"][0]["name"],
        token=config["users"][0]["user"]["token"],
        namespace=config["contexts"][0]["context"]["namespace"],
        cluster=cluster["name"],
    )


def read_token(path: Path) -> str:
    """The token of a file that `write` wrote; "" if there is no such file."""
    credentials = _read_if_valid(path)
    return credentials.token if credentials else ""


def read_server(path: Path) -> str:
    """The address in a file that `write` wrote; "" if there is no such file."""
    credentials = _read_if_valid(path)
    return credentials.server if credentials else ""


def _read_if_valid(path: Path) -> ClusterCredentials | None:
    try:
        return read(path)
    except (OSError, ValueError, LookupError, TypeError):
        return None
