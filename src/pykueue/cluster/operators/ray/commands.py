"""The commands inside Ray pods: `ray start`, `ray job submit`, `serve deploy`.

Ports are in variables, so that several clusters on one machine get different ports (see
`runtimes.port_mapping`).
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from pykueue.api import resource_lists, yaml_reader
from pykueue.api.scheme import Object
from pykueue.cluster.operators.ray import names

PORTS = {"RAY_PORT": "6379", "RAY_DASHBOARD_PORT": "8265", "RAY_CLIENT_PORT": "10001"}
_HEAD_OPTIONS = {
    "port": "$RAY_PORT",
    "dashboard-port": "$RAY_DASHBOARD_PORT",
    "ray-client-server-port": "$RAY_CLIENT_PORT",
    "dashboard-host": "0.0.0.0",  # noqa: S104 - as KubeRay starts it
}
_NODE_OPTIONS = {"dashboard-agent-listen-port": "0", "metrics-export-port": "0", "disable-usage-stats": "", "block": ""}
NO_RAY = "no `ray` on the PATH of pykueue: pip install 'ray[default]'"
NOT_FOUND_EXIT_CODE = 127
_REQUIRE_RAY = f"command -v ray >/dev/null || {{ echo {shlex.quote(NO_RAY)} >&2; exit {NOT_FOUND_EXIT_CODE}; }}; "
STARTUP_PROBE = {"exec": {"command": ["/bin/sh", "-c", "command -v ray"]}, "periodSeconds": 1}
"""Without it, a pod without `ray` would be ready for the moment before its command fails."""
DEPLOY = """\
printf '%s' "$SERVE_CONFIG" > serve-config.yaml
until serve deploy --address "http://$RAY_DASHBOARD_ADDRESS" serve-config.yaml; do sleep 1; done
until serve status --address "http://$RAY_DASHBOARD_ADDRESS" | grep -q 'status: RUNNING'; do sleep 1; done
"""
"""Deploys the applications of a RayService.

Retries until the dashboard answers, and ends when one runs.
"""


def start_head(parameters: Mapping[str, str], resources: Object) -> str:
    options = _HEAD_OPTIONS | _NODE_OPTIONS | _resource_options(resources) | dict(parameters)
    return f"{_REQUIRE_RAY}ray start --head {_flags(options)}"


def start_worker(parameters: Mapping[str, str], resources: Object) -> str:
    options = {"address": "$RAY_ADDRESS"} | _NODE_OPTIONS | _resource_options(resources) | dict(parameters)
    health_check = "until ray health-check --address $RAY_ADDRESS >/dev/null 2>&1; do sleep 1; done"
    return f"{_REQUIRE_RAY}{health_check}; ray start {_flags(options)}"


def _resource_options(resources: Object) -> dict[str, str]:
    limits = resource_lists.parse(resources.get("limits"))
    requests = resource_lists.parse(resources.get("requests"))
    options: dict[str, str] = {}
    if (cpu := limits.get("cpu") or requests.get("cpu")) is not None:
        options["num-cpus"] = str(cpu.units())
    if (memory := limits.get("memory")) is not None:
        options["memory"] = str(memory.units())
    gpus = [value for name, value in limits.items() if name.endswith("gpu") and value.nano]
    if gpus:
        options["num-gpus"] = str(gpus[0].units())
    return options


def _flags(options: Mapping[str, str]) -> str:
    flags = []
    for name, value in sorted(options.items()):
        if value in ("", "true"):
            flags.append(f"--{name}")
        elif value != "false":
            flags.append(f"--{name}={value if value.startswith('$') else shlex.quote(value)}")
    return " ".join(flags)


def runtime_environment(spec: Object) -> Any:
    """The value of `runtimeEnvYAML`; YamlError if it is not valid."""
    return yaml_reader.read_field(spec.get("runtimeEnvYAML") or "")


def submit(ray_job: Object, job_id: str) -> str:
    """A script that submits the job once, follows it, and ends with its result."""
    spec = ray_job["spec"]
    address = '--address "http://$RAY_DASHBOARD_ADDRESS"'
    options = [address, "--submission-id", shlex.quote(job_id), "--no-wait"]
    if spec.get("runtimeEnvYAML"):
        options += ["--runtime-env-json", shlex.quote(json.dumps(runtime_environment(spec)))]
    if spec.get("metadata"):
        options += ["--metadata-json", shlex.quote(json.dumps(spec["metadata"]))]
    for field, flag in (
        ("entrypointNumCpus", "--entrypoint-num-cpus"),
        ("entrypointNumGpus", "--entrypoint-num-gpus"),
        ("entrypointResources", "--entrypoint-resources"),
    ):
        if spec.get(field):
            options += [flag, shlex.quote(str(spec[field]))]
    status = f"ray job status {address} {shlex.quote(job_id)}"
    return "\n".join(
        [
            f"until ray job list {address} >/dev/null 2>&1; do sleep 1; done",
            f"if ! {status} >/dev/null 2>&1; then",
            f"  ray job submit {' '.join(options)} -- {spec.get('entrypoint', '').strip()}",
            "fi",
            f"ray job logs {address} --follow {shlex.quote(job_id)}",
            f"until {status} 2>&1 | grep -qE 'SUCCEEDED|FAILED|STOPPED|succeeded|failed|stopped'; do sleep 1; done",
            f"{status} 2>&1 | grep -qE 'SUCCEEDED|succeeded'",
        ]
    )


def variables(cluster: str, role: str) -> list[Object]:
    """The environment variables that KubeRay sets in every Ray container."""
    host = names.head_service(cluster)
    values = {
        "RAY_CLUSTER_NAME": cluster,
        "RAY_IP": "127.0.0.1" if role == "head" else host,
        "FQ_RAY_IP": host,
        **PORTS,
        "RAY_ADDRESS": f"{host}:{PORTS['RAY_PORT']}",
        "RAY_DASHBOARD_ADDRESS": f"{host}:{PORTS['RAY_DASHBOARD_PORT']}",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    return [{"name": name, "value": value} for name, value in values.items()]
