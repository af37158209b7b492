"""Validation of the annotations that have a meaning in pods and in pod templates.

Seccomp and AppArmor profiles were annotations before they were fields of the security context.
Kubernetes still checks them, and that they agree with the fields.
"""

import json
import re
from collections.abc import Iterator, Mapping

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading
from pykueue.api.rules.builtin import volumes
from pykueue.api.scheme import Object

MIRROR_POD = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR_CONTAINER = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST = "localhost/"
_PROFILES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "seccomp": {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")},
    "apparmor": {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)},
}
"""The types of a profile without a file, and the annotations that mean the same."""


def check(path: str, annotations: Mapping[str, str], spec: Object) -> Iterator[FieldError]:
    """The annotations of a pod or template with this spec."""
    if (config_hash := annotations.get(MIRROR_POD)) is not None and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        yield faults.invalid(f"{path}[{MIRROR_POD}]", config_hash, detail)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and (
        re.fullmatch(r"0|-?[1-9]\d{0,9}", cost, re.ASCII) is None or not -(2**31) <= int(cost) < 2**31
    ):
        yield faults.invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    profiles = _profiles(annotations)
    names = {reading.text(container.get("name")) for _, container in _containers("", spec)} if profiles else set()
    for key, profile in profiles.items():
        name = key.removeprefix(_APPARMOR_CONTAINER)
        if name == key:
            yield from _check_seccomp(f"{path}.{key}", profile)
            continue
        if name not in names:
            yield faults.invalid(f"{path}[{key}]", name, "container not found")
        if profile and not _is_named("apparmor", profile) and not profile.startswith(_LOCALHOST):
            yield faults.invalid(f"{path}[{key}]", profile, f"invalid AppArmor profile name: {json.dumps(profile)}")


def check_update(annotations: Mapping[str, str], before: Mapping[str, str]) -> Iterator[FieldError]:
    """The annotations of a pod that nobody may change."""
    for key in sorted(annotations.keys() | before.keys()):
        if annotations.get(key) == before.get(key):
            continue
        action = "remove or update" if key in before else "add"
        if key.startswith(_APPARMOR_CONTAINER):
            yield faults.forbidden(f"metadata.annotations[{key}]", f"may not {action} AppArmor annotations")
        elif key == MIRROR_POD:
            yield faults.forbidden(f"metadata.annotations[{key}]", f"may not {action} mirror pod annotation")


def check_profiles(path: str, annotations: Mapping[str, str], spec: Object) -> Iterator[FieldError]:
    """The annotations of profiles say the same as the fields of the spec at `path`."""
    if not _profiles(annotations):
        return
    context = reading.mapping(spec.get("securityContext"))
    seccomp, apparmor = context.get("seccompProfile"), context.get("appArmorProfile")
    if _SECCOMP_POD in annotations and isinstance(seccomp, dict):
        here = f"{path}.securityContext.seccompProfile"
        yield from _check_match(here, seccomp, annotations[_SECCOMP_POD], "seccomp")
    is_windows = reading.at(spec, "os", "name") == "windows"
    for where, container in _containers(path, spec):
        name, own = reading.text(container.get("name")), reading.mapping(container.get("securityContext"))
        annotation = annotations.get(f"{_SECCOMP_CONTAINER}{name}")
        if annotation is not None and isinstance(own.get("seccompProfile"), dict):
            here = f"{where}.securityContext.seccompProfile"
            yield from _check_match(here, own["seccompProfile"], annotation, "seccomp")
        annotation = annotations.get(f"{_APPARMOR_CONTAINER}{name}")
        profile = apparmor if own.get("appArmorProfile") is None else own["appArmorProfile"]
        if annotation is not None and isinstance(profile, dict) and not is_windows:
            here = f"{where}.securityContext.appArmorProfile"
            yield from _check_match(here, profile, annotation, "apparmor")


def _profiles(annotations: Mapping[str, str]) -> dict[str, str]:
    prefixes = (_SECCOMP_CONTAINER, _APPARMOR_CONTAINER)
    return {key: value for key, value in annotations.items() if key == _SECCOMP_POD or key.startswith(prefixes)}


def _containers(path: str, spec: Object) -> Iterator[tuple[str, Object]]:
    for name in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(reading.mappings(spec.get(name))):
            yield f"{path}.{name}[{index}]", container


def _check_seccomp(path: str, profile: str) -> Iterator[FieldError]:
    if profile.startswith(_LOCALHOST):
        yield from volumes.check_descending_path(path, profile.removeprefix(_LOCALHOST))
    elif not _is_named("seccomp", profile):
        yield faults.invalid(path, profile, "must be a valid seccomp profile")


def _is_named(word: str, profile: str) -> bool:
    return any(profile in profiles for profiles in _PROFILES[word].values())


def _check_match(path: str, profile: Object, annotation: str, word: str) -> Iterator[FieldError]:
    kind = reading.text(profile.get("type"))
    is_localhost = kind == "Localhost"
    if is_localhost and annotation.startswith(_LOCALHOST):
        if annotation.removeprefix(_LOCALHOST) != profile.get("localhostProfile"):
            yield faults.forbidden(f"{path}.localhostProfile", f"{word} profile in annotation and field must match")
    elif is_localhost or annotation not in _PROFILES[word].get(kind, (annotation,)):
        yield faults.forbidden(f"{path}.type", f"{word} type in annotation and field must match")
