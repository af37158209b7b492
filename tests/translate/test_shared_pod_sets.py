"""Workloads with equal pod sets share engine values, and the result is the same as without."""

import copy
import random

import pytest

from pykueue.translate import devices, requests, workload

OPTIONS = workload.WorkloadOptions()


def no_devices(_obj):
    return devices.NO_DEVICES


def translated(translator, obj):
    return translator.workload(obj, runtime_classes={}, count_devices=no_devices)


def directly(obj):
    return workload.workload(requests.adjusted(obj, runtime_classes={}, limit_ranges=()), OPTIONS)


def random_workload(source, number):
    container = {
        "name": "main",
        "resources": {
            source.choice(("requests", "limits")): {"cpu": f"{source.randint(1, 3)}", "memory": "2Gi"},
        },
    }
    pod_set = {"name": "main", "count": source.randint(1, 3), "template": {"spec": {"containers": [container]}}}
    conditions = [
        {"type": kind, "status": source.choice(("True", "False")), "lastTransitionTime": "2026-01-15T12:00:00Z"}
        for kind in ("QuotaReserved", "Admitted", "Evicted", "Finished")
        if source.random() < 0.5
    ]
    status = {"conditions": conditions}
    if source.random() < 0.5:
        usage = {"cpu": str(source.randint(1, 3)), "memory": "2Gi"}
        assignment = {"name": "main", "count": pod_set["count"], "flavors": {"cpu": "f"}, "resourceUsage": usage}
        status["admission"] = {"clusterQueue": source.choice("ab"), "podSetAssignments": [assignment]}
    if source.random() < 0.3:
        status["reclaimablePods"] = [{"name": "main", "count": 1}]
    if source.random() < 0.3:
        update = {"name": "main", "nodeSelector": {"zone": source.choice("ab")}}
        check = {"name": "c", "state": source.choice(("Ready", "Pending")), "podSetUpdates": [update]}
        status["admissionChecks"] = [check]
    return {
        "metadata": {"name": f"job-{number}", "namespace": "team", "uid": f"uid-{number}", "generation": 1},
        "spec": {"queueName": "main", "priority": source.randint(0, 1), "podSets": [pod_set]},
        "status": status,
    }


@pytest.mark.parametrize("seed", range(5))
def test_shared_values_equal_those_of_a_single_translation(seed):
    source, translator = random.Random(seed), workload.WorkloadTranslator(OPTIONS)
    for number in range(200):
        obj = random_workload(source, number)
        before = copy.deepcopy(obj)
        assert translated(translator, obj) == directly(obj)
        assert obj == before


def test_workloads_with_equal_pod_sets_share_them():
    translator = workload.WorkloadTranslator(OPTIONS)
    first, second = (random_workload(random.Random(3), number) for number in range(2))
    assert translated(translator, first).pod_sets is translated(translator, second).pod_sets


def test_few_pod_sets_are_remembered(monkeypatch):
    monkeypatch.setattr(workload, "MOST_SHARED", 8)
    translator = workload.WorkloadTranslator(OPTIONS)
    for number in range(50):
        obj = random_workload(random.Random(1), number)
        obj["spec"]["priority"] = number
        translated(translator, obj)
    assert len(translator._pod_sets) == 8
