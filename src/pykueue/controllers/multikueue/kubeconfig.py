"""Reads the kubeconfig of a worker, and refuses what would let its author read our files.

Pure functions; `clusters` gets the text from a Secret, a file or a ClusterProfile. The messages
are Kueue's.
"""

import ipaddress
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pykueue.api import objects, yaml_reader
from pykueue.api.rules import reading, syntax
from pykueue.api.scheme import Object

SECRET_KEY = "kubeconfig"  # noqa: S105 - the name of a key
DIRECTORY = Path("/etc/multikueue/kubeconfigs")
"""Where kubeconfigs must be with the gate MultiKueueKubeConfigPathValidation."""

LARGEST_BYTES = 256 * 1024
_MOST_VALUES = 5000
_CLUSTER_FIELDS = ("server", "certificate-authority-data")
_USER_FIELDS = ("token", "client-certificate-data", "client-key-data", "as")

Document = dict[str, Any]


class KubeconfigError(Exception):
    """The kubeconfig cannot be used: `reason` is that of the condition Active."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def read(text: str) -> Document:
    """The kubeconfig with its current context only, if all of it is safe.

    What is returned is what was checked: a second entry with the same name, or a name that is no
    text, would be another entry to one reader than to the next.
    """
    document = _parsed(text)
    users, clusters = _entries(document, "users", "user"), _entries(document, "clusters", "cluster")
    for name, user in users.items():
        if user.get("tokenFile"):
            raise _insecure("tokenFile is not allowed")
        for field in ("client-certificate", "client-key"):
            if user.get(field):
                raise _insecure(f"{field} file paths are not allowed, use {field}-data for user {name}")
    for name, cluster in clusters.items():
        if cluster.get("insecure-skip-tls-verify"):
            raise _insecure(f"insecure TLS verification is not allowed for cluster {name}")
        if cluster.get("certificate-authority"):
            raise _insecure(
                f"certificate-authority file paths are not allowed, use certificate-authority-data for cluster {name}"
            )
        if not cluster.get("server"):
            raise _insecure(f"server URL is required for cluster {name}")
    contexts = _entries(document, "contexts", "context")
    context = contexts.get(reading.text(document.get("current-context")))
    cluster = clusters.get(reading.text((context or {}).get("cluster")), {})
    user = users.get(reading.text((context or {}).get("user")), {})
    if not context or not cluster:
        message = "invalid configuration: no configuration has been provided; set current-context to a context"
        raise _insecure(message)
    check_access(cluster, user, "InsecureKubeConfig")
    return _document(
        {field: str(cluster[field]) for field in _CLUSTER_FIELDS if cluster.get(field)},
        {field: str(user[field]) for field in _USER_FIELDS if user.get(field)},
    )


def _document(cluster: Document, user: Document) -> Document:
    return {
        "current-context": "worker",
        "contexts": [{"name": "worker", "context": {"cluster": "worker", "user": "worker"}}],
        "clusters": [{"name": "worker", "cluster": cluster}],
        "users": [{"name": "worker", "user": user}],
    }


def _insecure(message: str) -> KubeconfigError:
    return KubeconfigError("InsecureKubeConfig", message)


def _parsed(text: str) -> Document:
    if len(text) > LARGEST_BYTES:
        raise _insecure(f"failed to parse kubeconfig(apiconfig): it is longer than {LARGEST_BYTES} characters")
    try:
        document = yaml_reader.read(text, lambda _key, _line: None, _MOST_VALUES)
    except yaml_reader.YamlError as error:
        raise _insecure(f"failed to parse kubeconfig(apiconfig): line {error.line + 1}: {error.message}") from None
    if not isinstance(document, dict):
        raise _insecure("failed to parse kubeconfig(apiconfig): it is not an object")
    return document


def _entries(document: Document, section: str, part: str) -> dict[str, Document]:
    entries: dict[str, Document] = {}
    for entry in reading.mappings(document.get(section)):
        name = entry.get("name")
        if not isinstance(name, str) or name in entries:
            fault = f"duplicate name {name!r}" if isinstance(name, str) else f"a name that is not text: {name!r:.40}"
            raise _insecure(f"failed to parse kubeconfig(apiconfig): {section} has {fault}")
        entries[name] = reading.mapping(entry.get(part))
    return entries


def check_access(cluster: Document, user: Document, reason: str, *, allows_plugin: bool = False) -> None:
    """Refuse another server than a host, and credentials of a plugin or a password."""
    if not is_valid_host(str(cluster.get("server", ""))):
        raise KubeconfigError(reason, "untrusted server endpoint")
    if user.get("username") or user.get("password"):
        raise KubeconfigError(reason, "basic auth is not allowed")
    if user.get("exec") is not None and not allows_plugin:
        raise KubeconfigError(reason, "exec plugins are not allowed")
    if user.get("auth-provider") is not None:
        raise KubeconfigError(reason, "auth providers are not allowed")


def is_valid_host(server: str) -> bool:
    """Whether the server of a URL is an IP address or a DNS name."""
    try:
        host = urlsplit(server.lower()).hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return not syntax.dns_subdomain(host)
    return True


def allowed_path(text: str, directory: Path = DIRECTORY) -> Path:
    """The file that a path names after all links, if it is below the directory."""
    outside = "kubeconfig path is not under the allowed prefix"
    cleaned = Path(os.path.normpath(text))
    if not cleaned.is_absolute():
        raise KubeconfigError("BadKubeConfig", f"{outside}: path must be absolute")
    try:
        resolved_directory = directory.resolve(strict=True)
    except OSError:
        raise KubeconfigError("BadKubeConfig", f'{outside}: "{cleaned}" is not under "{directory}"') from None
    try:
        resolved = cleaned.resolve(strict=True)
    except OSError as error:
        message = f"cannot resolve kubeconfig path symlinks: {cleaned}: {(error.strerror or '').lower()}"
        raise KubeconfigError("BadKubeConfig", message) from error
    if not resolved.is_relative_to(resolved_directory):
        raise KubeconfigError("BadKubeConfig", f'{outside}: "{resolved}" is not under "{resolved_directory}"')
    return resolved


def from_profile(profile: Object, providers: Iterable[Mapping[str, Any]]) -> Document:
    """The kubeconfig of a ClusterProfile: its first access provider that the Configuration has."""
    commands = {provider["name"]: provider.get("execConfig") or {} for provider in providers}
    if not commands:
        raise KubeconfigError("BadClusterProfile", "no access provider configured")
    status = objects.status(profile)
    offered = status.get("accessProviders") or status.get("credentialProviders") or ()
    for provider in offered:
        if provider.get("name") in commands:
            cluster, command = dict(provider.get("cluster") or {}), commands[provider["name"]]
            cluster.pop("extensions", None)
            user = {"exec": dict(command)} if command else {}
            check_access(cluster, user, "BadRestConfig", allows_plugin=True)
            return _document(cluster, user)
    name = objects.name(profile)
    raise KubeconfigError("BadClusterProfile", f"no matching access provider for cluster profile {name!r}")
