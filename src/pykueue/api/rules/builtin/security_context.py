"""Validation of security contexts of pods and containers."""

from collections.abc import Iterator
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.builtin import volumes
from pykueue.api.scheme import Object

_LARGEST_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_IDS = ("fsGroup", "runAsUser", "runAsGroup")


def check(path: str, spec: Object) -> Iterator[FieldError]:
    """The security contexts of a pod and of its containers."""
    context = reading.mapping(spec.get("securityContext"))
    here = f"{path}.securityContext"
    yield from _check_ids(here, context)
    for index, group in enumerate(reading.sequence(context.get("supplementalGroups"))):
        yield from _check_id(f"{here}.supplementalGroups[{index}]", group)
    if spec.get("shareProcessNamespace") is True and spec.get("hostPID") is True:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield faults.invalid(f"{here}.shareProcessNamespace", value=True, detail=detail)
    if (policy := context.get("fsGroupChangePolicy")) is not None and policy not in ("Always", "OnRootMismatch"):
        yield faults.not_supported(f"{here}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch"))
    yield from _check_profiles(here, context)
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(reading.mappings(spec.get(name))):
            if isinstance(container.get("securityContext"), dict):
                where = f"{path}.{name}[{index}].securityContext"
                yield from _check_container(where, container["securityContext"], spec)


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
    for name, word in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        profile = context.get(name)
        if isinstance(profile, dict):
            yield from _check_profile(f"{path}.{name}", profile, name, word)


def _check_profile(path: str, profile: Object, name: str, word: str) -> Iterator[FieldError]:
    kind, file = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        yield faults.required(f"{path}.type", f"type is required when {name} is set")
    elif kind not in _PROFILES:
        yield faults.not_supported(f"{path}.type", kind, _PROFILES)
    if kind == "Localhost":
        if not file:
            yield faults.required(f"{path}.localhostProfile", f"must be set when {word} type is Localhost")
        elif word == "seccomp":
            yield from volumes.check_descending_path(f"{path}.localhostProfile", reading.text(file))
    elif file is not None:
        yield faults.invalid(f"{path}.localhostProfile", file, f"can only be set when {word} type is Localhost")
