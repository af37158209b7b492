"""The commands inside Ray pods: `ray start` for head and workers, `ray job submit` for a job's submitter.

Ports stand in variables, so that clusters side by side on one machine get ports of their own (see `runtimes.rendezvous`).
"""

import json
import shlex
from collections.abc import Mapping

import yaml

from pykueue.api import resource_lists
from pykueue.api.scheme import Object
from pykueue.cluster.operators.ray import names

PORTS = {"RAY_PORT": "6379", "RAY_DASHBOARD_PORT": "8265", "RAY_CLIENT_PORT": "10001"}
_HEAD_OPTIONS = {
    "port": "$RAY_PORT",
    "dashboard-port": "$RAY_DASHBOARD_PORT",
    "ray-client-server-port": "$RAY_CLIENT_PORT",
    "dashboard-host": "0.0.0.0",  # noqa: S104 - as KubeRay starts it; the process runtime keeps it on this machine
}
_NODE_OPTIONS = {"dashboard-agent-listen-port": "0", "metrics-export-port": "0", "disable-usage-stats": "", "block": ""}


DEPLOY = """\
printf '%s' "$SERVE_CONFIG" > serve-config.yaml
until serve deploy --address "http://$RAY_DASHBOARD_ADDRESS" serve-config.yaml; do sleep 1; done
until serve status --address "http://$RAY_DASHBOARD_ADDRESS" | grep -q 'status: RUNNING'; do sleep 1; done
"""
"""Ends when an application runs; the dashboard may need its time."""


def start_head(parameters: Mapping[str, str], resources: Object) -> str:
    options = _HEAD_OPTIONS | _NODE_OPTIONS | _sizes(resources) | dict(parameters)
    return f"ray start --head {_flags(options)}"


def start_worker(parameters: Mapping[str, str], resources: Object) -> str:
    options = {"address": "$RAY_ADDRESS"} | _NODE_OPTIONS | _sizes(resources) | dict(parameters)
    return (
        f"until ray health-check --address $RAY_ADDRESS >/dev/null 2>&1; do sleep 1; done; ray start {_flags(options)}"
    )


def _sizes(resources: Object) -> dict[str, str]:
    limits = resource_lists.parse(resources.get("limits"))
    requests = resource_lists.parse(resources.get("requests"))
    found: dict[str, str] = {}
    if (cpu := limits.get("cpu") or requests.get("cpu")) is not None:
        found["num-cpus"] = str(cpu.units())
    if (memory := limits.get("memory")) is not None:
        found["memory"] = str(memory.units())
    gpus = [value for name, value in limits.items() if name.endswith("gpu") and value.nano]
    if gpus:
        found["num-gpus"] = str(gpus[0].units())
    return found


def _flags(options: Mapping[str, str]) -> str:
    shown = []
    for name, value in sorted(options.items()):
        if value in ("", "true"):
            shown.append(f"--{name}")
        elif value != "false":
            shown.append(f"--{name}={value if value.startswith('$') else shlex.quote(value)}")
    return " ".join(shown)


def submit(ray_job: Object, job_id: str) -> str:
    """Waits for the dashboard, submits once, and follows the job to its end: its result is the script's."""
    spec = ray_job["spec"]
    address = '--address "http://$RAY_DASHBOARD_ADDRESS"'
    options = [address, "--submission-id", shlex.quote(job_id), "--no-wait"]
    if spec.get("runtimeEnvYAML"):
        options += ["--runtime-env-json", shlex.quote(json.dumps(yaml.safe_load(spec["runtimeEnvYAML"])))]
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
    """What KubeRay tells every Ray container."""
    host = names.head_service(cluster)
    told = {
        "RAY_CLUSTER_NAME": cluster,
        "RAY_IP": "127.0.0.1" if role == "head" else host,
        "FQ_RAY_IP": host,
        **PORTS,
        "RAY_ADDRESS": f"{host}:{PORTS['RAY_PORT']}",
        "RAY_DASHBOARD_ADDRESS": f"{host}:{PORTS['RAY_DASHBOARD_PORT']}",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    return [{"name": name, "value": value} for name, value in told.items()]
