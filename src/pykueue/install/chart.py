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
from pykueue.api.rules.jobs import frameworks
from pykueue.api.scheme import Object
from pykueue.install import deployment, managed_kinds, policies, rights, spellings, suspension, validation, visibility

NAMESPACE, IMAGE, KINDS = "@NAMESPACE@", "@IMAGE@", "@MANAGED_KINDS@"
_SELECTOR = {"@SELECTOR@": True}
_HEALTH_PORT, _METRICS_PORT, _REPLICAS = 60001, 60002, 60003
_VISIBILITY_PORT = 60004
"""Numbers cannot be words: the templates replace these."""


def files() -> dict[str, str]:
    """Text by path inside the chart."""
    found = {
        f"crds/{each['spec']['names']['plural']}.yaml": yaml_text.dump([each])
        for each in crds.definitions(spellings.kinds())
    }
    found["files/rights.json"] = _lines(rights.of_controller(NAMESPACE))
    found["files/controller.json"] = _lines(_controller())
    found["files/visibility.json"] = _lines(visibility.of_port(_VISIBILITY_PORT, NAMESPACE))
    found["files/policies.json"] = _lines(_of_queues())
    for framework in frameworks.FRAMEWORKS.values():
        name, resource = _slug(framework.name), framework.resource
        found[f"files/kinds/{name}"] = managed_kinds.listed(framework)
        found[f"files/rights/{name}.json"] = _lines(rights.of_jobs(resource.group, resource.plural, NAMESPACE))
        found[f"files/policies/{name}.json"] = _policies(framework, manage_all=False)
        found[f"files/policies-for-all/{name}.json"] = _policies(framework, manage_all=True)
    return found


def _slug(framework: str) -> str:
    return framework.replace("/", "-").replace(".", "-")


def _lines(objects: Iterable[Any]) -> str:
    return "".join(f"---\n{json.dumps(obj, ensure_ascii=False)}\n" for obj in objects)


def _of_queues() -> list[Object]:
    return policies.objects(replace(loading.complete({}).value.settings(), frameworks=frozenset()))


def _policies(framework: frameworks.Framework, *, manage_all: bool) -> str:
    settings = replace(
        loading.complete({}).value.settings(),
        frameworks=frozenset(frameworks.FRAMEWORKS),
        managed_jobs_namespace_selector=_SELECTOR,
        manage_jobs_without_queue_name=manage_all,
    )
    objects = [*suspension.of_framework(framework, settings), *validation.of_framework(framework, settings)]
    listed = ", ".join(managed_kinds.listed(each) for _, each in sorted(frameworks.FRAMEWORKS.items()))
    return _lines(objects).replace(listed, KINDS)


def _controller() -> list[Object]:
    """Without the ConfigMap, which is made of the values."""
    addresses = {
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f":{_HEALTH_PORT}"},
        "metrics": {"bindAddress": f":{_METRICS_PORT}"},
    }
    objects = deployment.objects(loading.complete(addresses), image=IMAGE, replicas=_REPLICAS)
    plain: list[Object] = [msgspec.to_builtins(each) for each in objects]
    return [each for each in plain if each["kind"] != "ConfigMap"]
