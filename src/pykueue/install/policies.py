"""All admission policies of a cluster, in one list. Called by `pykueue manifests` and by the Helm chart."""

from pykueue.api.scheme import Object, Settings
from pykueue.install import queue_defaults, spellings, suspension, validation


def objects(settings: Settings) -> list[Object]:
    return [
        *spellings.policies(),
        *queue_defaults.policies(settings),
        *suspension.policies(settings),
        *validation.policies(settings),
    ]
