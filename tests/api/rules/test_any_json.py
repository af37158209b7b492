"""Defaulters meet objects before the schema has been checked: whatever JSON comes, no rule breaks."""

import contextlib
import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykueue.api.errors import ApiError
from pykueue.api.rules import table
from pykueue.api.rules.jobs import frameworks
from pykueue.api.scheme import Request, Settings

FIELDS = (
    *(
        "metadata",
        "spec",
        "status",
        "labels",
        "annotations",
        "template",
        "containers",
        "resources",
        "requests",
        "limits",
    ),
    *(
        "resourceGroups",
        "flavors",
        "coveredResources",
        "podSets",
        "admission",
        "podSetAssignments",
        "conditions",
        "name",
    ),
    *("count", "replicas", "workerGroupSpecs", "headGroupSpec", "rayClusterSpec", "pytorchReplicaSpecs", "Master"),
    *("replicatedJobs", "schedulingGates", "tolerations", "nodeTaints", "fairSharing", "weight", "ownerReferences"),
    *(
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/podset-slice-size",
        "strategy",
        "updateStrategy",
        "selector",
        "limits",
    ),
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=25,
)
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6)


class NoObjects:
    def get(self, resource, namespace, name):
        return None

    def list(self, resource, namespace=""):
        return ()


@pytest.mark.parametrize("rules", table.RULES.values(), ids=[kind or "core" for _, kind in table.RULES])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(obj=OBJECTS, old=st.none() | OBJECTS)
def test_rules_take_any_json(rules, obj, old):
    request = Request(
        operation="CREATE" if old is None else "UPDATE",
        object=copy.deepcopy(obj),
        old=old,
        lookup=NoObjects(),
        settings=Settings(frameworks=frozenset(frameworks.FRAMEWORKS), manage_jobs_without_queue_name=True),
    )
    if rules.reader:
        rules.reader(request.object)
    with contextlib.suppress(ApiError):
        rules.defaulter(request)
        verdict = rules.validator(request)
        assert all(str(fault) for fault in (*verdict.invalid, *verdict.denied))
