"""Annotations of pods and templates that Kubernetes 1.36 refuses, with its words, and accepts."""

_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io"
_APPARMOR = "container.apparmor.security.beta.kubernetes.io"
_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_TYPE = "securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"
_APPARMOR_TYPE = "securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match"


def profile(name, kind, file=None):
    """A security context with one profile."""
    return f"{{securityContext: {{{name}Profile: {{type: {kind}{f', localhostProfile: {file}' if file else ''}}}}}}}"


REFUSED = [
    ({"kubernetes.io/config.mirror": "x"}, "{}", "must set spec.nodeName if mirror pod annotation is set"),
    ({_COST: "+1"}, "{}", f'METADATA[{_COST}]: Invalid value: "+1": must be a 32bit integer'),
    ({_COST: "007"}, "{}", "must be a 32bit integer"),
    ({_COST: "99999999999"}, "{}", "must be a 32bit integer"),
    ({_SECCOMP_POD: "a"}, "{}", f'METADATA.{_SECCOMP_POD}: Invalid value: "a": must be a valid seccomp profile'),
    ({_SECCOMP_POD: "localhost//a"}, "{}", f'METADATA.{_SECCOMP_POD}: Invalid value: "/a": must be a relative path'),
    ({_SECCOMP_POD: "localhost/../a"}, "{}", "Invalid value: \"../a\": must not contain '..'"),
    ({f"{_SECCOMP}/none": ""}, "{}", f'METADATA.{_SECCOMP}/none: Invalid value: "": must be a valid seccomp profile'),
    (
        {f"{_APPARMOR}/none": "unconfined"},
        "{}",
        f'METADATA[{_APPARMOR}/none]: Invalid value: "none": container not found',
    ),
    ({f"{_APPARMOR}/c": "runtime/a"}, "{}", 'Invalid value: "runtime/a": invalid AppArmor profile name: "runtime/a"'),
    ({_SECCOMP_POD: "unconfined"}, profile("seccomp", "RuntimeDefault"), f"PATH.{_SECCOMP_TYPE}"),
    ({_SECCOMP_POD: "docker/default"}, profile("seccomp", "Unconfined"), f"PATH.{_SECCOMP_TYPE}"),
    ({_SECCOMP_POD: "unconfined"}, profile("seccomp", "Localhost", "a"), f"PATH.{_SECCOMP_TYPE}"),
    (
        {_SECCOMP_POD: "localhost/b"},
        profile("seccomp", "Localhost", "a"),
        "seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation and field must match",
    ),
    (
        {f"{_SECCOMP}/c": "unconfined"},
        f"{{container: {profile('seccomp', 'RuntimeDefault')}}}",
        f"PATH.containers[0].{_SECCOMP_TYPE}",
    ),
    (
        {f"{_APPARMOR}/c": "unconfined"},
        f"{{container: {profile('appArmor', 'RuntimeDefault')}}}",
        f"PATH.containers[0].{_APPARMOR_TYPE}",
    ),
    ({f"{_APPARMOR}/c": ""}, profile("appArmor", "Unconfined"), f"PATH.containers[0].{_APPARMOR_TYPE}"),
    ({f"{_APPARMOR}/c": "unconfined"}, profile("appArmor", "Localhost", "a"), f"PATH.containers[0].{_APPARMOR_TYPE}"),
    (
        {f"{_APPARMOR}/c": "localhost/b"},
        profile("appArmor", "Localhost", "a"),
        "appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation and field must match",
    ),
]
"""Annotations that Kubernetes refuses: the annotations, a spec, and an error.

`METADATA` stands for the path of the annotations.
"""

ACCEPTED = [
    ({_COST: "-2147483648"}, "{}"),
    ({_SECCOMP_POD: "docker/default"}, profile("seccomp", "RuntimeDefault")),
    ({_SECCOMP_POD: "localhost/a/b"}, profile("seccomp", "Localhost", "a/b")),
    ({_SECCOMP_POD: "unconfined"}, f"{{container: {profile('seccomp', 'RuntimeDefault')}}}"),
    ({f"{_SECCOMP}/none": "runtime/default"}, "{}"),
    ({f"{_APPARMOR}/c": ""}, "{}"),
    ({f"{_APPARMOR}/c": "localhost/a"}, profile("appArmor", "Localhost", "a")),
    ({f"{_APPARMOR}/i": "unconfined"}, "{initContainers: [{name: i, image: x}]}"),
]
"""Annotations that Kubernetes accepts: the annotations and a spec."""
