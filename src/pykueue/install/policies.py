"""All admission policies of a cluster, in one list. Called by `pykueue manifests` and by the Helm chart."""

from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.api.scheme import Object, Settings
from pykueue.install import (
    managed_kinds,
    queue_defaults,
    suspension,
    validation,
    version_aliases,
    warning,
)


def objects(settings: Settings) -> list[Object]:
    found = [
        *version_aliases.policies(),
        *queue_defaults.policies(settings),
        *validation.of_queues_and_workloads(settings),
        *warning.of_workloads(),
    ]
    for framework in managed_kinds.enabled(settings):
        found += of_framework(framework, settings)
    return found


def of_framework(framework: Framework, settings: Settings) -> list[Object]:
    return [
        *suspension.of_framework(framework, settings),
        *validation.of_framework(framework, settings),
        *warning.of_framework(framework, settings),
    ]
