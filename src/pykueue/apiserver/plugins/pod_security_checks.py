"""The checks of the Pod Security Standards: what the levels baseline and restricted forbid.

Each check is a function of a pod and of the minor version of the policy, because newer versions
forbid or allow other things. The words are those of Kubernetes. One thing is stricter: pods with
`hostUsers: false` may not run as root, because our runtimes have no user namespaces.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pykueue.api import objects
from pykueue.api.scheme import Object

PRIVILEGED, BASELINE, RESTRICTED = LEVELS = ("privileged", "baseline", "restricted")
"""From the least to the most strict."""

NEWEST_MINOR = 36
_DEFAULT_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_PROFILES = ("RuntimeDefault", "Localhost")
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SE_LINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t")
_VOLUME_TYPES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ]
)
_SYSCTLS = {
    0: (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ),
    27: ("net.ipv4.ip_local_reserved_ports",),
    29: (
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    ),
    32: ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
}
"""Allowed sysctls by the minor version that allowed them first."""

Violation = tuple[str, str]
"""What is forbidden, and the details of this pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityCheck:
    name: str
    level: str
    find: Callable[[Object, int], Violation | None]
    since: int = 0
    """The first minor version of the policy that has the check."""
    overrides: str = ""
    """The baseline check that this restricted one includes."""


def violations(pod: Object, level: str, minor: int) -> list[Violation]:
    """What a pod, or the pod template of another object, violates."""
    if level == PRIVILEGED:
        return []
    levels = (BASELINE,) if level == BASELINE else (BASELINE, RESTRICTED)
    checks = [check for check in CHECKS if check.level in levels and check.since <= minor]
    overridden = {check.overrides for check in checks}
    results = (check.find(pod, minor) for check in checks if check.name not in overridden)
    return [result for result in results if result is not None]


def _containers(pod: Object) -> Iterator[Object]:
    spec = objects.spec(pod)
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def _context(holder: Object) -> Object:
    return objects.nested(holder, "securityContext")


def _names(containers: Iterable[Object]) -> list[str]:
    return [str(container.get("name", "")) for container in containers]


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _counted(noun: str, words: Sequence[str]) -> str:
    """`container "a"` or `containers "a", "b"`."""
    return f"{noun}{'' if len(words) == 1 else 's'} {_quoted(words)}"


def _setters(containers: Sequence[str], *, by_pod: bool) -> str:
    named = [_counted("container", containers)] if containers else []
    return " and ".join([*(["pod"] if by_pod else []), *named])


def _is_for_windows(pod: Object, minor: int) -> bool:
    return minor >= 25 and objects.nested(pod, "spec", "os").get("name") == "windows"


def _app_armor(pod: Object, _minor: int) -> Violation | None:
    def type_of(holder: Object) -> str | None:
        profile = _context(holder).get("appArmorProfile")
        return None if profile is None else str(profile.get("type", ""))

    def is_bad(holder: Object) -> bool:
        return type_of(holder) not in (None, *_PROFILES)

    spec = objects.spec(pod)
    containers = [container for container in _containers(pod) if is_bad(container)]
    holders = ([spec] if is_bad(spec) else []) + containers
    values = sorted({str(type_of(holder)) for holder in holders})
    setters = [_setters(_names(containers), by_pod=is_bad(spec))] if holders else []
    annotations = sorted(
        f"{key}={json.dumps(value)}"
        for key, value in objects.annotations(pod).items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if annotations:
        values += annotations
        setters.append("annotation" if len(annotations) == 1 else "annotations")
    if not setters:
        return None
    reason = "forbidden AppArmor profile" if len(values) == 1 else "forbidden AppArmor profiles"
    return reason, f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(values)}"


def _added_capabilities(container: Object) -> list[str]:
    return objects.nested_list(container, "securityContext", "capabilities", "add")


def _adding(pod: Object, allowed: Iterable[str]) -> str:
    """Which containers add which capabilities besides the allowed ones; "" if none does."""
    forbidden = {
        str(container.get("name", "")): own
        for container in _containers(pod)
        if (own := set(_added_capabilities(container)) - set(allowed))
    }
    if not forbidden:
        return ""
    names = sorted(set().union(*forbidden.values()))
    subject = _counted("container", [*forbidden])
    return f"{subject} must not include {_quoted(names)} in securityContext.capabilities.add"


def _default_capabilities(pod: Object, _minor: int) -> Violation | None:
    details = _adding(pod, _DEFAULT_CAPABILITIES)
    return ("non-default capabilities", details) if details else None


def _no_capabilities(pod: Object, minor: int) -> Violation | None:
    if _is_for_windows(pod, minor):
        return None
    keeping = [
        container
        for container in _containers(pod)
        if "ALL" not in objects.nested_list(container, "securityContext", "capabilities", "drop")
    ]
    details = []
    if keeping:
        details.append(f'{_counted("container", _names(keeping))} must set securityContext.capabilities.drop=["ALL"]')
    if adding := _adding(pod, ("NET_BIND_SERVICE",)):
        details.append(adding)
    return ("unrestricted capabilities", "; ".join(details)) if details else None


def _host_namespaces(pod: Object, _minor: int) -> Violation | None:
    fields = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if objects.spec(pod).get(field)]
    return ("host namespaces", ", ".join(fields)) if fields else None


def _host_paths(pod: Object, _minor: int) -> Violation | None:
    volumes = _names(volume for volume in objects.nested_list(pod, "spec", "volumes") if "hostPath" in volume)
    return ("hostPath volumes", _counted("volume", volumes)) if volumes else None


def _host_ports(pod: Object, _minor: int) -> Violation | None:
    using = {
        str(container.get("name", "")): own
        for container in _containers(pod)
        if (own := {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")})
    }
    if not using:
        return None
    ports = sorted(set().union(*using.values()))
    verb, noun = "uses" if len(using) == 1 else "use", "hostPort" if len(ports) == 1 else "hostPorts"
    return "hostPort", f"{_counted('container', [*using])} {verb} {noun} {', '.join(ports)}"


def _hosts(container: Object) -> set[str]:
    handlers = [container.get(probe) or {} for probe in ("livenessProbe", "readinessProbe", "startupProbe")]
    handlers += [objects.nested(container, "lifecycle", event) for event in ("postStart", "preStop")]
    hosts = (objects.nested(handler, action).get("host") for handler in handlers for action in ("httpGet", "tcpSocket"))
    return {str(host) for host in hosts if host}


def _probe_hosts(pod: Object, _minor: int) -> Violation | None:
    using = {str(container.get("name", "")): own for container in _containers(pod) if (own := _hosts(container))}
    if not using:
        return None
    hosts = sorted(set().union(*using.values()))
    verb = "uses" if len(using) == 1 else "use"
    return "probe or lifecycle host", f"{_counted('container', sorted(using))} {verb} " + _counted(
        "probe or lifecycle host", hosts
    )


def _privileged(pod: Object, _minor: int) -> Violation | None:
    names = _names(container for container in _containers(pod) if _context(container).get("privileged"))
    return (
        ("privileged", f"{_counted('container', names)} must not set securityContext.privileged=true")
        if names
        else None
    )


def _proc_mount(pod: Object, _minor: int) -> Violation | None:
    bad = [container for container in _containers(pod) if _context(container).get("procMount") not in (None, "Default")]
    if not bad:
        return None
    values = sorted({str(_context(container)["procMount"]) for container in bad})
    details = f"{_counted('container', _names(bad))} must not set securityContext.procMount to {_quoted(values)}"
    return "procMount", details


def _se_linux(pod: Object, minor: int) -> Violation | None:
    allowed = (*_SE_LINUX_TYPES, *(("container_engine_t",) if minor >= 31 else ()))

    def options(holder: Object) -> Object:
        return objects.nested(_context(holder), "seLinuxOptions")

    def is_bad(holder: Object) -> bool:
        own = options(holder)
        return own.get("type", "") not in allowed or bool(own.get("user")) or bool(own.get("role"))

    spec = objects.spec(pod)
    containers = [container for container in _containers(pod) if is_bad(container)]
    bad = [options(holder) for holder in ([spec] if is_bad(spec) else []) + containers]
    if not bad:
        return None
    types = sorted({own["type"] for own in bad if own.get("type", "") not in allowed})
    details = [_counted("type", types)] if types else []
    details += [f"{field} may not be set" for field in ("user", "role") if any(own.get(field) for own in bad)]
    setters = _setters(_names(containers), by_pod=is_bad(spec))
    return "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(details)}"


def _seccomp_type(holder: Object) -> Any:
    profile = _context(holder).get("seccompProfile")
    return None if profile is None else profile.get("type", "")


def _seccomp(pod: Object, minor: int) -> Violation | None:
    if minor < 19:
        return _seccomp_annotations(pod)
    return _forbidden_seccomp(pod)


def _seccomp_annotations(pod: Object) -> Violation | None:
    keys = [_SECCOMP_POD, *(_SECCOMP_CONTAINER + name for name in _names(_containers(pod)))]
    annotations = objects.annotations(pod)
    forbidden = sorted(
        {
            f"{key}={json.dumps(value)}"
            for key in keys
            if (value := annotations.get(key)) is not None
            and value not in ("runtime/default", "docker/default")
            and not value.startswith("localhost/")
        }
    )
    noun = "annotation" if len(forbidden) == 1 else "annotations"
    return ("seccompProfile", f"forbidden {noun} {', '.join(forbidden)}") if forbidden else None


def _forbidden_seccomp(pod: Object) -> Violation | None:
    def is_bad(holder: Object) -> bool:
        return _seccomp_type(holder) not in (None, *_PROFILES)

    spec = objects.spec(pod)
    containers = [container for container in _containers(pod) if is_bad(container)]
    bad = ([spec] if is_bad(spec) else []) + containers
    if not bad:
        return None
    values = _quoted(sorted({str(_seccomp_type(holder)) for holder in bad}))
    setters = _setters(_names(containers), by_pod=is_bad(spec))
    return "seccompProfile", f"{setters} must not set securityContext.seccompProfile.type to {values}"


def _some_seccomp(pod: Object, minor: int) -> Violation | None:
    if _is_for_windows(pod, minor):
        return None
    if bad := _forbidden_seccomp(pod):
        return bad
    if _seccomp_type(objects.spec(pod)) is not None:
        return None
    names = _names(container for container in _containers(pod) if _seccomp_type(container) is None)
    words = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", f"pod or {_counted('container', names)} {words}") if names else None


def _sysctls(pod: Object, minor: int) -> Violation | None:
    allowed = {name for since, names in _SYSCTLS.items() if since <= minor for name in names}
    names = [sysctl.get("name", "") for sysctl in objects.nested_list(pod, "spec", "securityContext", "sysctls")]
    forbidden = [name for name in names if name not in allowed]
    return ("forbidden sysctls", ", ".join(forbidden)) if forbidden else None


def _host_process(pod: Object, _minor: int) -> Violation | None:
    def is_bad(holder: Object) -> bool:
        return bool(objects.nested(_context(holder), "windowsOptions").get("hostProcess"))

    setters = _setters(_names(filter(is_bad, _containers(pod))), by_pod=is_bad(objects.spec(pod)))
    details = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", details) if setters else None


def _privilege_escalation(pod: Object, minor: int) -> Violation | None:
    if _is_for_windows(pod, minor):
        return None
    names = _names(
        container for container in _containers(pod) if _context(container).get("allowPrivilegeEscalation") is not False
    )
    details = f"{_counted('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return ("allowPrivilegeEscalation != false", details) if names else None


def _volume_types(pod: Object, _minor: int) -> Violation | None:
    types = {
        str(volume.get("name", "")): next((field for field in volume if field != "name"), "unknown")
        for volume in objects.nested_list(pod, "spec", "volumes")
        if not _VOLUME_TYPES.intersection(volume)
    }
    if not types:
        return None
    verb = "uses" if len(types) == 1 else "use"
    restricted = _counted("restricted volume type", sorted(set(types.values())))
    return "restricted volume types", f"{_counted('volume', [*types])} {verb} {restricted}"


def _non_root(pod: Object, _minor: int) -> Violation | None:
    reason, spec = "runAsNonRoot != true", objects.spec(pod)
    of_pod = _context(spec).get("runAsNonRoot")
    setting = {
        str(container.get("name", "")): _context(container).get("runAsNonRoot") for container in _containers(pod)
    }
    wrong = [name for name, value in setting.items() if value is False]
    if setters := _setters(wrong, by_pod=of_pod is False):
        return reason, f"{setters} must not set securityContext.runAsNonRoot=false"
    unset = [name for name, value in setting.items() if value is None]
    if of_pod or not unset:
        return None
    return reason, f"pod or {_counted('container', unset)} must set securityContext.runAsNonRoot=true"


def _root_user(pod: Object, _minor: int) -> Violation | None:
    def is_root(holder: Object) -> bool:
        return bool(_context(holder).get("runAsUser") == 0)

    setters = _setters(_names(filter(is_root, _containers(pod))), by_pod=is_root(objects.spec(pod)))
    return ("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


CHECKS = (
    SecurityCheck(name="appArmorProfile", level=BASELINE, find=_app_armor),
    SecurityCheck(name="capabilities_baseline", level=BASELINE, find=_default_capabilities),
    SecurityCheck(name="hostNamespaces", level=BASELINE, find=_host_namespaces),
    SecurityCheck(name="hostPathVolumes", level=BASELINE, find=_host_paths),
    SecurityCheck(name="hostPorts", level=BASELINE, find=_host_ports),
    SecurityCheck(name="hostProbesAndHostLifecycle", level=BASELINE, find=_probe_hosts, since=34),
    SecurityCheck(name="privileged", level=BASELINE, find=_privileged),
    SecurityCheck(name="procMount", level=BASELINE, find=_proc_mount),
    SecurityCheck(name="seLinuxOptions", level=BASELINE, find=_se_linux),
    SecurityCheck(name="seccompProfile_baseline", level=BASELINE, find=_seccomp),
    SecurityCheck(name="sysctls", level=BASELINE, find=_sysctls),
    SecurityCheck(name="windowsHostProcess", level=BASELINE, find=_host_process),
    SecurityCheck(name="allowPrivilegeEscalation", level=RESTRICTED, find=_privilege_escalation, since=8),
    SecurityCheck(
        name="capabilities_restricted",
        level=RESTRICTED,
        find=_no_capabilities,
        since=22,
        overrides="capabilities_baseline",
    ),
    SecurityCheck(name="restrictedVolumes", level=RESTRICTED, find=_volume_types, overrides="hostPathVolumes"),
    SecurityCheck(name="runAsNonRoot", level=RESTRICTED, find=_non_root),
    SecurityCheck(name="runAsUser", level=RESTRICTED, find=_root_user, since=23),
    SecurityCheck(
        name="seccompProfile_restricted",
        level=RESTRICTED,
        find=_some_seccomp,
        since=19,
        overrides="seccompProfile_baseline",
    ),
)
"""In the order in which Kubernetes lists violations."""
