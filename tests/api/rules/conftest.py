import copy
from collections.abc import Mapping

import pytest

from pykueue.api.errors import aggregate
from pykueue.api.rules import table
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import AdmissionRequest, Settings

EVERY_FRAMEWORK = Settings(frameworks=frozenset(job_kinds.JOB_KINDS))


class Objects:
    """A `Lookup` in the objects that a test adds."""

    def __init__(self):
        self.objects = []

    def add(self, obj):
        self.objects.append(obj)

    def get(self, resource, namespace, name):
        named = (obj for obj in self.list(resource, namespace) if obj["metadata"]["name"] == name)
        return next(named, None)

    def list(self, resource, namespace=""):
        return [
            obj
            for obj in self.objects
            if obj["kind"] == resource.kind and obj["metadata"].get("namespace", "") in (namespace or "", "")
        ]


class Admission:
    """The rules of one cluster: `stored` gives the object after defaulting, `refusal` a denial."""

    def __init__(self, settings):
        self.cluster = Objects()
        self.settings = settings
        self.warnings = []

    def request(self, obj, old=None, subresource=""):
        return AdmissionRequest(
            operation="CREATE" if old is None else "UPDATE",
            object=copy.deepcopy(obj),
            old=old,
            subresource=subresource,
            lookup=self.cluster,
            settings=self.settings,
        )

    def stored(self, obj, old=None):
        request = self.request(obj, old)
        reader = rules(obj).reader
        self.warnings = reader(request.object) if reader else []
        rules(obj).defaulter(request)
        return request.object

    def verdict(self, obj, old=None, subresource=""):
        return rules(obj).validator(self.request(obj, old, subresource))

    def refusal(self, obj, old=None, subresource=""):
        verdict = self.verdict(obj, old, subresource)
        faults = verdict.invalid or verdict.denied
        return aggregate(faults) if faults else ""


def rules(obj):
    group, _, _ = obj["apiVersion"].rpartition("/")
    return table.rules_of(group, obj["kind"])


@pytest.fixture
def admission():
    return Admission(EVERY_FRAMEWORK)


@pytest.fixture
def admission_with():
    def make(**settings):
        return Admission(Settings(**{"frameworks": EVERY_FRAMEWORK.frameworks, **settings}))

    return make


def merged(base, change):
    """`base` with `change` laid over it; None removes."""
    result = copy.deepcopy(base)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


@pytest.fixture
def changed():
    return merged
