"""Validation of security contexts of pods and containers."""

import re
from collections.abc import Iterator
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.builtin import volumes
from pykueue.api.scheme import Object

_LARGEST_ID = 2**31 - 1
_LONGEST_SYSCTL = 253
_SYSCTL_SEGMENT = re.compile("[a-z0-9]([-_a-z0-9]*[a-z0-9])?", re.ASCII)
_SYSCTL = rf"({_SYSCTL_SEGMENT.pattern}[\./])*{_SYSCTL_SEGMENT.pattern}"
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_LONGEST_APPARMOR_PROFILE = 4095
_IDS = ("fsGroup", "runAsUser", "runAsGroup")


def check(path: str, spec: Object) -> Iterator[FieldError]:
    """The security contexts of a pod and of its containers."""
    context = reading.mapping(spec.get("securityContext"))
    here = f"{path}.securityContext"
    if context:
        yield from _check_ids(here, context)
        for index, group in enumerate(reading.sequence(context.get("supplementalGroups"))):
            yield from _check_id(f"{here}.supplementalGroups[{index}]", group)
    if spec.get("shareProcessNamespace") is True and spec.get("hostPID") is True:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield faults.invalid(f"{here}.shareProcessNamespace", value=True, detail=detail)
    if context:
        yield from _check_pod_context(here, context)
    if spec.get("hostUsers") is False:
        for name, field in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(name) is True:
                yield faults.forbidden(f"{path}.{field}", "when `hostUsers` is false")
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(reading.mappings(spec.get(name))):
            if isinstance(container.get("securityContext"), dict):
                where = f"{path}.{name}[{index}].securityContext"
                yield from _check_container(where, container["securityContext"], spec)


def _check_pod_context(path: str, context: Object) -> Iterator[FieldError]:
    if (policy := context.get("fsGroupChangePolicy")) is not None and policy not in ("Always", "OnRootMismatch"):
        yield faults.not_supported(f"{path}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch"))
    groups_policy = context.get("supplementalGroupsPolicy")
    if groups_policy is not None and groups_policy not in ("Merge", "Strict"):
        yield faults.not_supported(f"{path}.supplementalGroupsPolicy", groups_policy, ("Merge", "Strict"))
    yield from _check_sysctls(f"{path}.sysctls", reading.mappings(context.get("sysctls")))
    yield from _check_profiles(path, context)


def _check_sysctls(path: str, sysctls: list[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        here, name = f"{path}[{index}].name", reading.text(sysctl.get("name"))
        segments = name.replace("/", ".").split(".")
        if not name:
            yield faults.required(here)
        elif len(name) > _LONGEST_SYSCTL or not all(map(_SYSCTL_SEGMENT.fullmatch, segments)):
            detail = f"must have at most {_LONGEST_SYSCTL} characters and match regex ^{_SYSCTL}$"
            yield faults.invalid(here, name, detail)
        elif name in names:
            yield faults.duplicate(here, name)
        names.add(name)


def _check_container(path: str, context: Object, spec: Object) -> Iterator[FieldError]:
    yield from _check_ids(path, context)
    if (proc_mount := context.get("procMount")) is not None:
        if proc_mount not in ("Default", "Unmasked"):
            yield faults.not_supported(f"{path}.procMount", proc_mount, ("Default", "Unmasked"))
        if proc_mount == "Unmasked" and spec.get("hostUsers") is not False:
            yield faults.invalid(f"{path}.procMount", proc_mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _check_profiles(path, context)
    if context.get("allowPrivilegeEscalation") is False:
        start = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged") is True:
            yield faults.invalid(path, context, f"{start} `privileged` to true")
        if "CAP_SYS_ADMIN" in reading.sequence(reading.at(context, "capabilities", "add")):
            yield faults.invalid(path, context, f"{start} `capabilities.Add` CAP_SYS_ADMIN")


def _check_ids(path: str, context: Object) -> Iterator[FieldError]:
    for name in _IDS:
        if context.get(name) is not None:
            yield from _check_id(f"{path}.{name}", context[name])


def _check_id(path: str, value: Any) -> Iterator[FieldError]:
    if not 0 <= reading.integer(value) <= _LARGEST_ID:
        yield faults.invalid(path, value, syntax.outside(0, _LARGEST_ID))


def _check_profiles(path: str, context: Object) -> Iterator[FieldError]:
    for name, word, check_file in (
        ("seccompProfile", "seccomp", volumes.check_descending_path),
        ("appArmorProfile", "AppArmor", _check_apparmor_profile),
    ):
        if not isinstance(profile := context.get(name), dict):
            continue
        here, kind, file = f"{path}.{name}", profile.get("type", ""), profile.get("localhostProfile")
        if not kind:
            yield faults.required(f"{here}.type", f"type is required when {name} is set")
        elif kind not in _PROFILES:
            yield faults.not_supported(f"{here}.type", kind, _PROFILES)
        if kind != "Localhost":
            if file is not None and (kind in _PROFILES or word == "seccomp"):
                detail = f"can only be set when {word} type is Localhost"
                yield faults.invalid(f"{here}.localhostProfile", file, detail)
        elif file is None:
            yield faults.required(f"{here}.localhostProfile", f"must be set when {word} type is Localhost")
        else:
            yield from check_file(f"{here}.localhostProfile", reading.text(file))


def _check_apparmor_profile(path: str, profile: str) -> Iterator[FieldError]:
    if profile != profile.strip():
        yield faults.invalid(path, profile, "must not be padded with whitespace")
    elif not profile:
        yield faults.required(path, "must be set when AppArmor type is Localhost")
    if len(profile.encode()) > _LONGEST_APPARMOR_PROFILE:
        yield faults.too_long(path, _LONGEST_APPARMOR_PROFILE)
