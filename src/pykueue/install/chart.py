"""The parts of the Helm chart that are made from the same functions as `pykueue manifests`. Called by `tools/chart.py`.

A chart cannot call Python, so each job kind's objects are a file of their own, of which the templates take those of the enabled
kinds. What depends on the values is a placeholder in capitals that the templates replace.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec

from pykueue.api import crds, yaml_text
from pykueue.api.configuration import loading
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
from pykueue.install import (
    deployment,
    managed_kinds,
    policies,
    rights,
    version_aliases,
    visibility,
    webhooks,
)

NAMESPACE, IMAGE, KINDS = "@NAMESPACE@", "@IMAGE@", "@MANAGED_KINDS@"
SECRET, SERVICE = "@SECRET@", "@SERVICE@"
_SELECTOR = {"@SELECTOR@": True}
_HEALTH_PORT, _METRICS_PORT, _REPLICAS = 60001, 60002, 60003
_VISIBILITY_PORT, _WEBHOOK_PORT = 60004, 60005
"""Numbers cannot be words: the templates replace these."""


def files() -> dict[str, str]:
    """Text by path inside the chart."""
    found = {
        f"crds/{each['spec']['names']['plural']}.yaml": yaml_text.dump([each])
        for each in crds.definitions(version_aliases.kinds())
    }
    found["files/rights.json"] = _lines(rights.of_controller(NAMESPACE))
    found["files/visibility.json"] = _lines(visibility.of_port(_VISIBILITY_PORT, NAMESPACE))
    found["files/rights-of-webhooks.json"] = _lines(rights.of_webhooks(NAMESPACE, SECRET))
    found["files/controller.json"] = _lines(_controller(webhooks=False))
    found["files/controller-with-webhooks.json"] = _lines(_controller(webhooks=True))
    found["files/webhooks.json"] = _entries(webhooks.of_queues(_ENDPOINT))
    found["files/policies.json"] = _lines(_of_queues())
    for job_kind in job_kinds.JOB_KINDS.values():
        name, resource = _slug(job_kind.name), job_kind.resource
        found[f"files/kinds/{name}"] = managed_kinds.listed(job_kind)
        found[f"files/rights/{name}.json"] = _lines(rights.of_jobs(resource.group, resource.plural, NAMESPACE))
        found[f"files/policies/{name}.json"] = _policies(job_kind, manage_all=False)
        found[f"files/policies-for-all/{name}.json"] = _policies(job_kind, manage_all=True)
        found[f"files/webhooks/{name}.json"] = _entries_of_jobs(job_kind, manage_all=False)
        found[f"files/webhooks-for-all/{name}.json"] = _entries_of_jobs(job_kind, manage_all=True)
    return found


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
    objects = policies.of_framework(job_kind, settings)
    listed = ", ".join(managed_kinds.listed(each) for _, each in sorted(job_kinds.JOB_KINDS.items()))
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
    """By the configuration that they belong to; the templates join those of the enabled kinds."""
    found = {f"{each['kind']}/{each['metadata']['name']}": each["webhooks"] for each in entries.configurations()}
    return json.dumps(found, ensure_ascii=False) + "\n"


def _controller(*, webhooks: bool) -> list[Object]:
    """Without the ConfigMap, which is made of the values."""
    addresses = {
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f":{_HEALTH_PORT}"},
        "metrics": {"bindAddress": f":{_METRICS_PORT}"},
        "webhook": {"port": _WEBHOOK_PORT},
        "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE},
    }
    objects = deployment.objects(loading.complete(addresses), image=IMAGE, replicas=_REPLICAS, webhooks=webhooks)
    plain: list[Object] = [msgspec.to_builtins(each) for each in objects]
    return [each for each in plain if each["kind"] != "ConfigMap"]
