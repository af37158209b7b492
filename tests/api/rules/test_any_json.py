"""Defaulters run before the schema is checked: no rule raises on any JSON."""

import contextlib
import copy
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykueue.api.errors import ApiError
from pykueue.api.rules import table
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import AdmissionRequest, Settings

pytestmark = pytest.mark.untraced

SOURCES = Path(table.__file__).parent.rglob("*.py")
FIELDS = sorted({name for path in SOURCES for name in re.findall(r'"([A-Za-z][\w./-]*)"', path.read_text())})
"""Every name that a rule may look for, and more."""

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
    request = AdmissionRequest(
        operation="CREATE" if old is None else "UPDATE",
        object=copy.deepcopy(obj),
        old=old,
        lookup=NoObjects(),
        settings=Settings(frameworks=frozenset(job_kinds.JOB_KINDS), manage_jobs_without_queue_name=True),
    )
    if rules.reader:
        rules.reader(request.object)
    with contextlib.suppress(ApiError):
        rules.defaulter(request)
        verdict = rules.validator(request)
        assert all(str(fault) for fault in (*verdict.invalid, *verdict.denied))


def places(value, path=()):
    """The path of every field of an object."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in inner:
        yield (*path, step)
        yield from places(child, (*path, step))


def replaced(obj, path, value):
    result = copy.deepcopy(obj)
    holder = result
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return result


CONTAINER = {
    "name": "c",
    "image": "x",
    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
    "ports": [{}],
    "env": [{}],
}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {"containers": [CONTAINER], "nodeSelector": {"a": "b"}},
}
META = {
    "name": "x",
    "namespace": "n",
    "labels": {"kueue.x-k8s.io/queue-name": "q"},
    "annotations": {"a": "b"},
    "uid": "u",
}
CLUSTER = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [{"groupName": "g", "replicas": 1, "template": TEMPLATE}],
}
FULL = {
    ("kueue.x-k8s.io", "ClusterQueue"): {
        "metadata": META,
        "spec": {
            "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor", "preference": "x"},
            "preemption": {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "Never"}},
            "namespaceSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
            "admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["f"]}]},
            "resourceGroups": [
                {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]}
            ],
            "concurrentAdmissionPolicy": {"migration": {"mode": "x", "constraints": {"lastAcceptableFlavorName": "f"}}},
        },
    },
    ("kueue.x-k8s.io", "ResourceFlavor"): {
        "metadata": META,
        "spec": {"nodeLabels": {"a": "b"}, "nodeTaints": [{"key": "k", "effect": "e"}], "tolerations": [{"key": "k"}]},
    },
    ("kueue.x-k8s.io", "Workload"): {
        "metadata": META,
        "spec": {"podSets": [{"name": "main", "count": 1, "template": TEMPLATE, "topologyRequest": {"podSetSliceSize": 1}}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 1, "resourceUsage": {"cpu": "1"}}]},
            "reclaimablePods": [{"name": "main", "count": 1}],
            "admissionChecks": [{"name": "c", "state": "Ready", "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}]}],
            "clusterName": "c",
            "nominatedClusterNames": ["c"],
        },
    },
    ("batch", "Job"): {"metadata": META, "spec": {"parallelism": 1, "template": TEMPLATE, "selector": {"matchLabels": {"a": "b"}}}},
    ("", "Pod"): {"metadata": META, "spec": TEMPLATE["spec"] | {"schedulingGates": [{"name": "g"}], "tolerations": [{"key": "k"}], "affinity": {"nodeAffinity": {}}}},
    ("ray.io", "RayCluster"): {"metadata": META, "spec": CLUSTER},
    ("ray.io", "RayJob"): {"metadata": META, "spec": {"rayClusterSpec": CLUSTER, "shutdownAfterJobFinishes": True}},
    ("kubeflow.org", "PyTorchJob"): {"metadata": META, "spec": {"runPolicy": {}, "pytorchReplicaSpecs": {"Master": {"template": TEMPLATE, "replicas": 1}}}},
    ("jobset.x-k8s.io", "JobSet"): {"metadata": META, "spec": {"replicatedJobs": [{"name": "r", "template": {"spec": {"template": TEMPLATE}}}]}},
    ("apps", "StatefulSet"): {"metadata": META, "spec": {"replicas": 1, "template": TEMPLATE, "updateStrategy": {}}, "status": {"readyReplicas": 1}},
    ("apps", "Deployment"): {"metadata": META, "spec": {"replicas": 1, "template": TEMPLATE, "strategy": {}}, "status": {"readyReplicas": 1}},
}  # fmt: skip


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("value", [None, True, 7, 1.5, "text", [], [[1]], {}, {"a": {"b": 1}}], ids=repr)
def test_rules_take_a_field_of_any_type(kind, value):
    rules, full = table.RULES[kind], FULL[kind]
    settings = Settings(frameworks=frozenset(job_kinds.JOB_KINDS), feature_gates={"ConcurrentAdmission": True})
    for path in places(full):
        for obj, old in (
            (replaced(full, path, value), None),
            (replaced(full, path, value), full),
            (full, replaced(full, path, value)),
        ):
            operation = "CREATE" if old is None else "UPDATE"
            request = AdmissionRequest(
                operation=operation, object=copy.deepcopy(obj), old=old, lookup=NoObjects(), settings=settings
            )
            with contextlib.suppress(ApiError):
                rules.defaulter(request)
                rules.validator(request)
