"""Pod Security: the labels `pod-security.kubernetes.io/*` of a namespace, as in Kubernetes.

`enforce` refuses pods; `warn` warns of pods and of objects with a pod template; `audit` writes a
line into the log of the server. A namespace with invalid labels is refused.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pykueue.api import errors, objects, resources
from pykueue.api.errors import FieldError
from pykueue.api.scheme import AdmissionRequest, Kind, Object
from pykueue.apiserver.calls import WriteCall
from pykueue.apiserver.plugins import pod_security_checks
from pykueue.apiserver.plugins.pod_security_checks import LEVELS, NEWEST_MINOR, PRIVILEGED, RESTRICTED

log = logging.getLogger(__name__)

PREFIX = "pod-security.kubernetes.io/"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,5})")
_LATEST = "latest"
_EVALUATED_SUBRESOURCES = ("", "resize", "ephemeralcontainers")
_TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "Job"): ("spec", "template"),
}
"""Where the kinds that the policy warns about have their pod template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityLevel:
    level: str = PRIVILEGED
    version: str = _LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    @property
    def minor(self) -> int:
        return NEWEST_MINOR if self.version == _LATEST else min(int(self.version.removeprefix("v1.")), NEWEST_MINOR)

    def violations(self, pod: Object) -> list[pod_security_checks.Violation]:
        return pod_security_checks.violations(pod, self.level, self.minor)

    def text(self, pod: Object) -> str:
        """The violations of a pod in the words of Kubernetes; "" if there is none."""
        return ", ".join(f"{reason} ({details})" for reason, details in self.violations(pod))


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityPolicy:
    enforce: SecurityLevel
    audit: SecurityLevel
    warn: SecurityLevel
    field_errors: tuple[FieldError, ...] = ()


def policy_of(labels: Mapping[str, str]) -> SecurityPolicy:
    """The policy of a namespace. A faulty level is `restricted` for enforce, else `privileged`."""
    modes: dict[str, SecurityLevel] = {}
    field_errors = []
    for mode in ("enforce", "audit", "warn"):
        level = labels.get(PREFIX + mode, PRIVILEGED)
        version = labels.get(f"{PREFIX}{mode}-version", _LATEST)
        if level not in LEVELS:
            field_errors.append(_invalid(mode, level, f"must be one of {', '.join(LEVELS)}"))
            level = RESTRICTED if mode == "enforce" else PRIVILEGED
        if version != _LATEST and not _VERSION.fullmatch(version):
            field_errors.append(_invalid(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
            version = _LATEST
        modes[mode] = SecurityLevel(level=level, version=version)
    if PREFIX + "warn" not in labels and labels.get(PREFIX + "enforce") in LEVELS:
        version = modes["warn"].version if f"{PREFIX}warn-version" in labels else modes["enforce"].version
        modes["warn"] = SecurityLevel(level=modes["enforce"].level, version=version)
    return SecurityPolicy(**modes, field_errors=tuple(field_errors))


def _invalid(label: str, value: str, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", f"metadata.labels[{PREFIX}{label}]", detail, value)


class PodSecurityAdmission:
    """The admission plugin."""

    def validate(self, kind: Kind, request: AdmissionRequest, _call: WriteCall) -> list[str]:
        if (kind.group, kind.kind) == ("", "Namespace"):
            return [] if request.subresource else self._validate_namespace(request)
        if (kind.group, kind.kind) == ("", "Pod"):
            is_evaluated = request.subresource in _EVALUATED_SUBRESOURCES and _changes_containers(request)
            return self._validate_pod(kind, request, request.object) if is_evaluated else []
        path = _TEMPLATES.get((kind.group, kind.kind))
        if path is None or request.subresource:
            return []
        return self._validate_pod(kind, request, objects.nested(request.object, *path))

    def _validate_pod(self, kind: Kind, request: AdmissionRequest, pod: Object) -> list[str]:
        name, namespace = objects.name(request.object), objects.namespace(request.object)
        holder = request.lookup.get(resources.NAMESPACE, "", namespace)
        policy = policy_of(objects.labels(holder)) if holder else None
        if policy is None or not pod:
            return []
        pod = {"metadata": {}, **pod}
        if text := policy.audit.text(pod):
            log.info('%s %s/%s would violate PodSecurity "%s": %s', kind.plural, namespace, name, policy.audit, text)
        if kind.kind == "Pod" and (text := policy.enforce.text(pod)):
            raise errors.forbidden("", "pods", name, f'violates PodSecurity "{policy.enforce}": {text}')
        text = policy.warn.text(pod)
        return [f'would violate PodSecurity "{policy.warn}": {text}'] if text else []

    def _validate_namespace(self, request: AdmissionRequest) -> list[str]:
        policy = policy_of(objects.labels(request.object))
        before = policy_of(objects.labels(request.old)) if request.old else None
        if policy.field_errors and (before is None or policy.field_errors != before.field_errors):
            raise errors.invalid("", "Namespace", objects.name(request.object), policy.field_errors)
        if before is None or policy.enforce == before.enforce:
            return []
        is_looser = LEVELS.index(policy.enforce.level) <= LEVELS.index(before.enforce.level)
        if policy.enforce.version == before.enforce.version and is_looser:
            return []
        return _warnings_of_pods(request, policy.enforce)


def _changes_containers(request: AdmissionRequest) -> bool:
    """Whether a pod is new, or an update adds a container or changes an image."""
    if request.old is None:
        return True
    if request.old.get("spec") == request.object.get("spec"):
        return False
    before, after = (
        [
            [(container.get("name"), container.get("image")) for container in objects.nested_list(pod, "spec", field)]
            for field in ("initContainers", "containers", "ephemeralContainers")
        ]
        for pod in (request.old, request.object)
    )
    return before != after


def _warnings_of_pods(request: AdmissionRequest, level: SecurityLevel) -> list[str]:
    """The violations of the pods that a namespace has when it gets a stricter level."""
    namespace = objects.name(request.object)
    names: dict[str, list[str]] = defaultdict(list)
    for pod in request.lookup.list(resources.POD, namespace):
        if violations := level.violations(pod):
            names[", ".join(reason for reason, _ in violations)].append(objects.name(pod))
    if not names:
        return []
    heading = f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"'
    return [heading, *sorted(f"{_first_of(sorted(pods))}: {reasons}" for reasons, pods in names.items())]


def _first_of(pods: list[str]) -> str:
    others = len(pods) - 1
    if not others:
        return pods[0]
    return f"{pods[0]} (and {others} other pod{'' if others == 1 else 's'})"
