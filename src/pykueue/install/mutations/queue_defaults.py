"""Defaults of new ClusterQueues, ResourceFlavors and Workloads.

In Python: the defaulters of `api.rules`. A quota that was written as a number stays a number here,
which has the same meaning.
"""

from collections.abc import Iterator

from pykueue.api import feature_gates, resources
from pykueue.api.kueue.kinds import STORAGE_VERSION
from pykueue.api.labels import RESOURCE_IN_USE
from pykueue.api.scheme import Object, Resource, Settings
from pykueue.install import admission_policies
from pykueue.install.admission_policies import Mutation, Subject, object_with

_IN_USE = Mutation(text=object_with(("metadata", "finalizers"), f"['{RESOURCE_IN_USE}']"))
_POD_SET_INDEXES = ", ".join(map(str, range(18)))
_POD_SETS = "object.spec.podSets"


def policies(settings: Settings) -> list[Object]:
    objects: list[Object] = []
    for resource, mutation in _mutations(settings):
        subject = Subject(resource=resource, versions=("v1beta1", STORAGE_VERSION))
        objects += admission_policies.mutating(f"defaults-{resource.plural}", subject, [mutation])
    return objects


def _mutations(settings: Settings) -> Iterator[tuple[Resource, Mutation]]:
    yield resources.CLUSTER_QUEUE, _IN_USE
    yield resources.RESOURCE_FLAVOR, _IN_USE
    if not feature_gates.is_enabled(settings.feature_gates, "PartialAdmission"):
        is_partial = f"i < size({_POD_SETS}) && has({_POD_SETS}[i].minCount)"
        removal = "JSONPatch{op: 'remove', path: '/spec/podSets/' + string(i) + '/minCount'}"
        text = f"[{_POD_SET_INDEXES}].filter(i, {is_partial}).map(i, {removal})"
        yield resources.WORKLOAD, Mutation(text=text, is_json_patch=True)
