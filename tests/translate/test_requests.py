import copy

from pykueue.translate import requests
from pykueue.translate.requests import RequestRules


def pod_set(count=1, name="main", limits=None, **quantities):
    resources = {"requests": quantities} | ({"limits": limits} if limits else {})
    return {"name": name, "count": count, "template": {"spec": {"containers": [{"resources": resources}]}}}


def workload(*pod_sets, **status):
    return {"spec": {"podSets": list(pod_sets)}, "status": status}


def counted(obj, rules=None):
    return [(pod_set.count, pod_set.requests) for pod_set in requests.total_requests(obj, rules or RequestRules())]


def transformed(quantities, *configured):
    rules = RequestRules(transformations=requests.transformations_from(configured))
    return counted(workload(pod_set(**quantities)), rules)[0][1]


def test_requests_are_those_of_all_pods():
    assert counted(workload(pod_set(3, cpu="500m"))) == [(3, {"cpu": 1500})]


def test_reclaimable_pods_are_not_counted():
    obj = workload(pod_set(3, cpu="1"), reclaimablePods=[{"name": "main", "count": 2}])
    assert counted(obj) == [(1, {"cpu": 1000})]


def test_an_admitted_workload_counts_as_it_was_admitted():
    admission = {"podSetAssignments": [{"name": "main", "count": 2, "resourceUsage": {"cpu": "7"}}]}
    assert counted(workload(pod_set(3, cpu="1"), admission=admission)) == [(2, {"cpu": 7000})]


def test_admitted_usage_shrinks_with_reclaimed_pods():
    admission = {"podSetAssignments": [{"name": "main", "count": 4, "resourceUsage": {"cpu": "8"}}]}
    obj = workload(pod_set(4, cpu="2"), admission=admission, reclaimablePods=[{"name": "main", "count": 3}])
    assert counted(obj) == [(1, {"cpu": 2000})]


def test_excluded_prefixes_are_not_counted():
    rules = RequestRules(excluded_prefixes=("networking.example.com/",))
    assert counted(workload(pod_set(**{"cpu": "1", "networking.example.com/vpc": "1"})), rules) == [(1, {"cpu": 1000})]


def test_replace_drops_the_input():
    rule = {"input": "example.com/mig", "strategy": "Replace", "outputs": {"example.com/credit": "5"}}
    assert transformed({"example.com/mig": "2"}, rule) == {"example.com/credit": 10}


def test_retain_is_the_default_strategy():
    rule = {"input": "example.com/gpu", "outputs": {"example.com/credit": "5"}}
    assert transformed({"example.com/gpu": "2"}, rule) == {"example.com/gpu": 2, "example.com/credit": 10}


def test_a_negative_allowance_does_not_reduce_a_direct_request():
    rule = {"input": "example.com/credit", "strategy": "Replace", "outputs": {"example.com/gpu": "-1"}}
    assert transformed({"example.com/credit": "3", "example.com/gpu": "8"}, rule) == {"example.com/gpu": 8}


def test_limits_stand_in_for_missing_requests():
    obj = requests.adjusted(workload(pod_set(limits={"cpu": "2"})), runtime_classes={}, limit_ranges=[])
    assert counted(obj) == [(1, {"cpu": 2000})]


def test_limit_range_defaults_fill_what_is_missing():
    limit_range = {"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3", "memory": "1Ki"}}]}}
    obj = requests.adjusted(workload(pod_set(cpu="1")), runtime_classes={}, limit_ranges=[limit_range])
    assert counted(obj) == [(1, {"cpu": 1000, "memory": 1024})]


def test_a_runtime_class_adds_its_overhead():
    obj = workload(pod_set(cpu="1"))
    obj["spec"]["podSets"][0]["template"]["spec"]["runtimeClassName"] = "kata"
    classes = {"kata": {"overhead": {"podFixed": {"cpu": "250m"}}}}
    assert counted(requests.adjusted(obj, runtime_classes=classes, limit_ranges=[])) == [(1, {"cpu": 1250})]


def test_adjusting_leaves_the_stored_workload_alone():
    obj = workload(pod_set(limits={"cpu": "2"}))
    before = copy.deepcopy(obj)
    requests.adjusted(obj, runtime_classes={}, limit_ranges=[])
    assert obj == before


def test_usage_is_by_flavor_and_resource():
    admission = {
        "podSetAssignments": [
            {"name": "a", "count": 1, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "1"}},
            {"name": "b", "count": 1, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "2"}},
        ]
    }
    obj = workload(pod_set(name="a", cpu="1"), pod_set(name="b", cpu="2"), admission=admission)
    assert requests.usage(requests.total_requests(obj, RequestRules())) == {("spot", "cpu"): 3000}
