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

import yaml

from pykueue.api import objects
from pykueue.api.rules import reading, syntax
from pykueue.api.scheme import Object

SECRET_KEY = "kubeconfig"  # noqa: S105 - the name of a key
DIRECTORY = Path("/etc/multikueue/kubeconfigs")
"""Where kubeconfigs must be with the gate MultiKueueKubeConfigPathValidation."""

Document = dict[str, Any]


class KubeconfigError(Exception):
    """The kubeconfig cannot be used: `reason` is that of the condition Active."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def read(text: str) -> Document:
    """The kubeconfig as JSON, if it is safe."""
    document = _parsed(text)
    for user in _entries(document, "users", "user").values():
        if user.get("tokenFile"):
            raise _insecure("tokenFile is not allowed")
    for name, cluster in _entries(document, "clusters", "cluster").items():
        if cluster.get("insecure-skip-tls-verify"):
            raise _insecure(f"insecure TLS verification is not allowed for cluster {name}")
        if cluster.get("certificate-authority"):
            raise _insecure(
                f"certificate-authority file paths are not allowed, use certificate-authority-data for cluster {name}"
            )
        if not cluster.get("server"):
            raise _insecure(f"server URL is required for cluster {name}")
    check_access(document, "InsecureKubeConfig")
    return document


def _insecure(message: str) -> KubeconfigError:
    return KubeconfigError("InsecureKubeConfig", message)


def _parsed(text: str) -> Document:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _insecure(f"failed to parse kubeconfig(apiconfig): {error}") from error
    if not isinstance(document, dict):
        raise _insecure("failed to parse kubeconfig(apiconfig): it is not an object")
    return document


def _entries(document: Document, section: str, part: str) -> dict[str, Document]:
    return {
        reading.text(entry.get("name")): reading.mapping(entry.get(part))
        for entry in reading.mappings(document.get(section))
    }


def check_access(document: Document, reason: str, *, allows_plugin: bool = False) -> None:
    """Refuse credentials of the current context that come from a file, a plugin or a password."""
    context = _entries(document, "contexts", "context").get(str(document.get("current-context", "")))
    cluster = _entries(document, "clusters", "cluster").get(str((context or {}).get("cluster", "")))
    user = _entries(document, "users", "user").get(str((context or {}).get("user", "")), {})
    if context is None or cluster is None:
        message = "invalid configuration: no configuration has been provided; set current-context to a context"
        raise KubeconfigError(reason, message)
    if not is_valid_host(str(cluster.get("server", ""))):
        raise KubeconfigError(reason, "untrusted server endpoint")
    if user.get("username") or user.get("password"):
        raise KubeconfigError(reason, "basic auth is not allowed")
    if user.get("exec") and not allows_plugin:
        raise KubeconfigError(reason, "exec plugins are not allowed")
    if user.get("auth-provider"):
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
            document = {
                "current-context": "profile",
                "contexts": [{"name": "profile", "context": {"cluster": "profile", "user": "profile"}}],
                "clusters": [{"name": "profile", "cluster": cluster}],
                "users": [{"name": "profile", "user": {"exec": dict(command)} if command else {}}],
            }
            check_access(document, "BadRestConfig", allows_plugin=True)
            return document
    name = objects.name(profile)
    raise KubeconfigError("BadClusterProfile", f"no matching access provider for cluster profile {name!r}")
