"""The generated files of the Helm chart, from the functions that `pykueue manifests` uses.

A chart cannot call Python, so each job kind has its own files, and the templates include those of
the enabled kinds. Values of the chart are placeholders in capitals, which the templates replace.
Called by `tools/chart.py`.
"""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from pykueue.api import crds, yaml_text
from pykueue.api.configuration import loading
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
from pykueue.install import (
    deployment,
    managed_kinds,
    policies,
    rbac,
    version_aliases,
    visibility,
    webhooks,
)

NAMESPACE, IMAGE, KINDS = "@NAMESPACE@", "@IMAGE@", "@MANAGED_KINDS@"
SECRET, SERVICE = "@SECRET@", "@SERVICE@"
_SELECTOR = {"@SELECTOR@": True}
_HEALTH_PORT, _METRICS_PORT, _REPLICAS = 60001, 60002, 60003
_VISIBILITY_PORT, _WEBHOOK_PORT = 60004, 60005
"""Placeholders of numbers, which the templates replace too."""


def files() -> dict[str, str]:
    """The text of each file by its path inside the chart."""
    texts = {
        f"crds/{definition['spec']['names']['plural']}.yaml": yaml_text.dump([definition])
        for definition in crds.definitions(version_aliases.kinds())
    }
    texts["files/rights.json"] = _lines(rbac.of_controller(NAMESPACE))
    texts["files/visibility.json"] = _lines(visibility.of_port(_VISIBILITY_PORT, NAMESPACE))
    texts["files/rights-of-failure-recovery.json"] = _lines(rbac.of_failure_recovery(NAMESPACE))
    texts["files/rights-of-webhooks.json"] = _lines(rbac.of_webhooks(NAMESPACE, SECRET))
    texts["files/controller.json"] = _lines(_controller(webhooks=False))
    texts["files/controller-with-webhooks.json"] = _lines(_controller(webhooks=True))
    texts["files/webhooks.json"] = _entries(webhooks.of_queues(_ENDPOINT))
    texts["files/policies.json"] = _lines(_of_queues())
    for job_kind in job_kinds.JOB_KINDS.values():
        name, resource = _slug(job_kind.name), job_kind.resource
        texts[f"files/kinds/{name}"] = managed_kinds.listed(job_kind)
        texts[f"files/rights/{name}.json"] = _lines(rbac.of_jobs(resource.group, resource.plural, NAMESPACE))
        texts[f"files/policies/{name}.json"] = _policies(job_kind, manage_all=False)
        texts[f"files/policies-for-all/{name}.json"] = _policies(job_kind, manage_all=True)
        texts[f"files/webhooks/{name}.json"] = _entries_of_jobs(job_kind, manage_all=False)
        texts[f"files/webhooks-for-all/{name}.json"] = _entries_of_jobs(job_kind, manage_all=True)
    return texts


def _slug(job_kind: str) -> str:
    return job_kind.replace("/", "-").replace(".", "-")


def _lines(objects: Iterable[Any]) -> str:
    return "".join(f"---\n{json.dumps(obj, ensure_ascii=False)}\n" for obj in objects)


def _of_queues() -> list[Object]:
    return policies.objects(replace(loading.complete({}).value.settings(), frameworks=frozenset()))


def _policies(job_kind: job_kinds.JobKind, *, manage_all: bool) -> str:
    settings = replace(
        loading.complete({}).value.settings(),
        frameworks=frozenset(job_kinds.JOB_KINDS),
        managed_jobs_namespace_selector=_SELECTOR,
        manage_jobs_without_queue_name=manage_all,
    )
    objects = policies.of_job_kind(job_kind, settings)
    listed = ", ".join(managed_kinds.listed(kind) for _, kind in sorted(job_kinds.JOB_KINDS.items()))
    return _lines(objects).replace(listed, KINDS)


_ENDPOINT = webhooks.Endpoint(namespace=NAMESPACE, service=SERVICE)


def _entries_of_jobs(job_kind: job_kinds.JobKind, *, manage_all: bool) -> str:
    settings = replace(
        loading.complete({}).value.settings(),
        managed_jobs_namespace_selector=_SELECTOR,
        manage_jobs_without_queue_name=manage_all,
    )
    return _entries(webhooks.of_jobs(job_kind, settings, _ENDPOINT))


def _entries(entries: webhooks.Entries) -> str:
    """Webhooks by configuration; the templates join those of the enabled kinds."""
    webhooks_by_configuration = {
        f"{configuration['kind']}/{configuration['metadata']['name']}": configuration["webhooks"]
        for configuration in entries.configurations()
    }
    return json.dumps(webhooks_by_configuration, ensure_ascii=False) + "\n"


def _controller(*, webhooks: bool) -> list[Object]:
    """The controller without its ConfigMap, which the templates make of the values."""
    addresses = {
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f":{_HEALTH_PORT}"},
        "metrics": {"bindAddress": f":{_METRICS_PORT}"},
        "webhook": {"port": _WEBHOOK_PORT},
        "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE},
    }
    objects = deployment.objects(loading.complete(addresses), image=IMAGE, replicas=_REPLICAS, webhooks=webhooks)
    plain: list[Object] = [msgspec.to_builtins(obj) for obj in objects]
    return [obj for obj in plain if obj["kind"] != "ConfigMap"]
