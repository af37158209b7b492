"""Access to a cluster: its address, its certificate authority and our credentials.

This module reads plain kubeconfigs (tokens, token files, client certificates) and the service
account files of a pod. kubernetes_asyncio reads those with a credential plugin or an identity
provider; it is imported only for them.
"""

import asyncio
import base64
import contextlib
import json
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_SECONDS = 60.0

Token = Callable[[], Awaitable[str]]
"""Returns a bearer token that is valid now, or ""."""


class AccessError(Exception):
    """There is no access to the cluster; the message says what was read and what is missing."""


async def _no_token() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    server: str
    tls: ssl.SSLContext | None = None
    """None: the certificate authorities of this machine."""
    token: Token = field(default=_no_token)
    namespace: str = "default"
    headers: dict[str, str] = field(default_factory=dict)


def default_kubeconfig() -> Path:
    """The first file that KUBECONFIG names, else the one in the home directory."""
    paths = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return Path(paths[0]) if paths else Path.home() / ".kube" / "config"


async def find(path: Path | None = None, context: str = "") -> Access:
    """From `path`, else KUBECONFIG, else the pod that we run in, else ~/.kube/config."""
    if path is None and not os.environ.get("KUBECONFIG") and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return from_pod()
    return await from_kubeconfig(path or default_kubeconfig(), context)


def from_pod(directory: Path = _SERVICE_ACCOUNT) -> Access:
    """The service account of the pod that we run in."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = directory / "token"
    if not host or not token.exists():
        raise AccessError(f"not in a pod of a cluster: KUBERNETES_SERVICE_HOST or {token} is missing")
    namespace = directory / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=ssl.create_default_context(cafile=str(directory / "ca.crt")),
        token=_token_from_file(token),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


async def from_kubeconfig(path: Path, context: str = "") -> Access:
    return await from_document(_read(path), path, context)


async def from_document(config: dict[str, Any], path: Path, context: str = "") -> Access:
    """From the content of a kubeconfig; `path` is its name in messages, and files that it names
    are relative to it.
    """
    context_name = context or config.get("current-context") or ""
    entry = _entry(path, config, "contexts", context_name).get("context") or {}
    cluster = _entry(path, config, "clusters", entry.get("cluster", "")).get("cluster") or {}
    user = (_entry(path, config, "users", entry["user"]).get("user") or {}) if entry.get("user") else {}
    if not cluster.get("server"):
        raise AccessError(f"{path}: the cluster of context {context_name!r} has no server")
    namespace = entry.get("namespace") or "default"
    if "exec" in user or "auth-provider" in user:
        return await _from_plugin(config, path, context_name, namespace)
    tls = _tls(path, cluster, user) if str(cluster["server"]).startswith("https") else None
    return Access(
        server=str(cluster["server"]).rstrip("/"),
        tls=tls,
        token=_token(path, user),
        namespace=namespace,
        headers=_headers(user),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        config = _decoded(path.read_text())
    except OSError as error:
        raise AccessError(f"cannot read the kubeconfig {path}: {error.strerror}") from error
    except ValueError as error:
        raise AccessError(f"{path} is not a kubeconfig: {error}") from error
    if not isinstance(config, dict):
        raise AccessError(f"{path} is not a kubeconfig")
    return config


def _decoded(text: str) -> Any:
    """The kubeconfig of `pykueue up` is JSON, which is read much faster than YAML."""
    if text.startswith("{"):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _entry(path: Path, config: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    for entry in config.get(section) or ():
        if entry.get("name") == name:
            return dict(entry)
    raise AccessError(f"{path} has no {section.removesuffix('s')} named {name!r}")


def _headers(user: dict[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = {}
    if user.get("username"):
        secret = f"{user['username']}:{user.get('password', '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
    if user.get("as"):
        headers["Impersonate-User"] = str(user["as"])
    return headers


def _token(path: Path, user: dict[str, Any]) -> Token:
    if user.get("tokenFile"):
        return _token_from_file(path.parent / user["tokenFile"])
    token = str(user.get("token") or "")

    async def constant() -> str:
        return token

    return constant


def _token_from_file(path: Path) -> Token:
    """Read the file once a minute, because its token is replaced before it expires."""
    read_at, token = 0.0, ""

    async def current() -> str:
        nonlocal read_at, token
        if not token or time.monotonic() - read_at > _TOKEN_SECONDS:
            token, read_at = (await asyncio.to_thread(path.read_text)).strip(), time.monotonic()
        return token

    return current


def _tls(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    if cluster.get("certificate-authority-data"):
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    elif cluster.get("certificate-authority"):
        context = ssl.create_default_context(cafile=str(path.parent / cluster["certificate-authority"]))
    else:
        context = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if user.get("client-certificate-data") or user.get("client-certificate"):
        _load_identity(context, path, user)
    return context


def _load_identity(context: ssl.SSLContext, path: Path, user: dict[str, Any]) -> None:
    """Load the client certificate, from private files, because OpenSSL reads only files."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pykueue-") as directory:
        paths = []
        for name in ("client-certificate", "client-key"):
            if user.get(f"{name}-data"):
                file = Path(directory) / name
                file.touch(mode=0o600)
                file.write_bytes(base64.b64decode(user[f"{name}-data"]))
            elif user.get(name):
                file = path.parent / user[name]
            else:
                raise AccessError(f"{path}: the user has a client certificate but no {name}")
            paths.append(str(file))
        context.load_cert_chain(*paths)


async def _from_plugin(config: dict[str, Any], path: Path, context: str, namespace: str) -> Access:
    """Access with the credentials of a plugin or an identity provider."""
    try:
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import load_kube_config, load_kube_config_from_dict
    except ImportError as error:
        raise AccessError(f"{path} uses a credential plugin: install pykueue[cluster] to use it") from error

    async def load() -> Any:
        configuration = Configuration()
        if await asyncio.to_thread(path.exists):
            await load_kube_config(
                config_file=str(path), context=context, client_configuration=configuration, persist_config=False
            )
        else:
            await load_kube_config_from_dict(config_dict=config, context=context, client_configuration=configuration)
        return configuration

    first = await load()
    tls = ssl.create_default_context(cafile=first.ssl_ca_cert or None)
    if not first.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if first.cert_file:
        tls.load_cert_chain(first.cert_file, first.key_file)
    loaded_at, bearer = time.monotonic(), _bearer(first)

    async def current() -> str:
        nonlocal loaded_at, bearer
        if time.monotonic() - loaded_at > _TOKEN_SECONDS:
            loaded_at, bearer = time.monotonic(), _bearer(await load())
        return bearer

    return Access(server=str(first.host).rstrip("/"), tls=tls, token=current, namespace=namespace)


def _bearer(configuration: Any) -> str:
    return str(configuration.api_key.get("BearerToken", "")).removeprefix("Bearer ")
