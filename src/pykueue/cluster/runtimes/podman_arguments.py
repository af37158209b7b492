"""The arguments of podman for a container of a pod. Functions without I/O.

What podman cannot keep is refused with a message that names the field. Users of several namespaces
share the account that runs podman, so nothing of a pod reaches the files of that account.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pykueue.api import objects, resource_lists
from pykueue.api.scheme import Object
from pykueue.cluster.kubelet.security_context import RefusedFieldError
from pykueue.cluster.runtimes.protocol import ContainerRequest

POD_LABEL = "dev.pykueue.pod"
PROCESS_LIMIT = 16384
_PULL_POLICIES = {"Always": "always", "IfNotPresent": "missing", "Never": "never"}
_REFUSED_POD_FIELDS = ("hostPID", "hostIPC", "shareProcessNamespace")
_REFUSED_FIELDS = ("privileged", "seLinuxOptions", "windowsOptions", "sysctls")


def container_name(pod_uid: str, container: str, attempt: int) -> str:
    return f"pykueue-{pod_uid}-{container}-{attempt}"


def run(request: ContainerRequest, environment_file: Path, *, has_limits: bool) -> list[str]:
    """`podman run` for a request. `has_limits` says whether podman can keep limits here."""
    pod, container = request.pod, request.container
    name = str(container["name"])
    words = ["run", "--name", container_name(objects.uid(pod), name, request.attempt)]
    words += ["--label", f"{POD_LABEL}={objects.uid(pod)}", "--network", "host", "--log-driver", "none"]
    words += ["--env-file", str(environment_file), "--no-hosts"]
    words += ["--pull", _PULL_POLICIES.get(str(container.get("imagePullPolicy")), "missing")]
    words += ["--interactive"] if container.get("stdin") or container.get("tty") else []
    words += ["--tty"] if container.get("tty") else []
    words += ["--workdir", container["workingDir"]] if container.get("workingDir") else []
    words += [
        word for name in request.gpu_uuids or request.gpu_indexes for word in ("--device", f"nvidia.com/gpu={name}")
    ]
    words += [*_limits(container, has_limits=has_limits), *_security(pod, container), *_mounts(request)]
    arguments = list(request.command)
    if container.get("command"):
        words += ["--entrypoint", json.dumps(arguments[:1])]
        arguments = arguments[1:]
    return [*words, "--", str(container.get("image", "")), *arguments]


def environment_text(variables: Mapping[str, str]) -> str:
    """The content of an environment file. Other users cannot read it, but they see arguments."""
    for name, value in variables.items():
        if "\n" in value or "\r" in value or "\n" in name:
            raise RefusedFieldError(f"env.{name!r:.80}", "…", "podman reads no line breaks in variables; use a volume")
    return "".join(f"{name}={value}\n" for name, value in variables.items())


def _limits(container: Object, *, has_limits: bool) -> list[str]:
    limits = resource_lists.parse(objects.nested(container, "resources").get("limits"))
    words = ["--pids-limit", str(PROCESS_LIMIT)] if has_limits else []
    for name, option in (("memory", "--memory"), ("cpu", "--cpus")):
        if name not in limits:
            continue
        if not has_limits:
            reason = "podman without root needs cgroup version 2 for limits; remove the limit"
            raise RefusedFieldError(f"resources.limits.{name}", limits[name], reason)
        value = f"{limits['cpu'].milli() / 1000:.3f}" if name == "cpu" else f"{limits['memory'].units()}b"
        words += [option, value]
        words += ["--memory-swap", value] if name == "memory" else []
    return words


def _security(pod: Object, container: Object) -> list[str]:
    spec = objects.spec(pod)
    pod_fields = objects.nested(spec, "securityContext")
    fields = pod_fields | objects.nested(container, "securityContext")
    for field in _REFUSED_POD_FIELDS:
        if spec.get(field):
            raise RefusedFieldError(f"spec.{field}", "true", "containers of podman are isolated; remove the field")
    for field in _REFUSED_FIELDS:
        if fields.get(field):
            raise RefusedFieldError(f"securityContext.{field}", fields[field], "is not supported with podman")
    for field in ("seccompProfile", "appArmorProfile"):
        if objects.nested(fields, field).get("type") in ("Localhost", "Unconfined"):
            raise RefusedFieldError(f"securityContext.{field}", fields[field]["type"], "use RuntimeDefault")
    capabilities = objects.nested(fields, "capabilities")
    if capabilities.get("add"):
        added = ", ".join(map(str, capabilities["add"]))
        raise RefusedFieldError("securityContext.capabilities.add", added, "is not supported with podman")
    words = [word for name in capabilities.get("drop") or () for word in ("--cap-drop", str(name).upper())]
    words += ["--security-opt", "no-new-privileges"] if fields.get("allowPrivilegeEscalation") is not True else []
    words += ["--read-only"] if fields.get("readOnlyRootFilesystem") else []
    words += _user(fields)
    groups = [*(pod_fields.get("supplementalGroups") or ()), *_present(pod_fields.get("fsGroup"))]
    return [*words, *(word for gid in groups for word in ("--group-add", str(int(gid))))]


def _user(fields: Object) -> list[str]:
    uid, gid = fields.get("runAsUser"), fields.get("runAsGroup")
    if fields.get("runAsNonRoot") and not uid:
        raise RefusedFieldError("securityContext.runAsNonRoot", "true", "set runAsUser to another user than 0")
    if uid is None and gid is None:
        return []
    return ["--user", f"{int(uid or 0)}" + (f":{int(gid)}" if gid is not None else "")]


def _present(value: Any) -> list[Any]:
    return [] if value is None else [value]


def _mounts(request: ContainerRequest) -> list[str]:
    for volume in objects.spec(request.pod).get("volumes") or ():
        if "hostPath" in volume:
            path = objects.nested(volume, "hostPath").get("path")
            reason = "containers of podman see no files of this machine; use an image or an emptyDir volume"
            raise RefusedFieldError(f"volume {volume['name']}: hostPath", path, reason)
    read_only = {mount["mountPath"] for mount in request.container.get("volumeMounts") or () if mount.get("readOnly")}
    words = []
    for target, source in request.mounts.directories.items():
        if any(character in text for text in (target, str(source)) for character in ',"\n'):
            raise RefusedFieldError("volumeMounts.mountPath", target, "podman reads neither commas nor quotes in it")
        words += ["--mount", f"type=bind,src={source},dst={target}" + (",ro" if target in read_only else "")]
    return words
