"""Replays recorded tests of requests, limit ranges, pod set infos and the pod sets of jobs."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from pykueue.api import limit_range
from pykueue.api.errors import ApiError, FieldError
from pykueue.conformance import differences
from pykueue.conformance.corpus import Case, feature_gates
from pykueue.conformance.differences import Difference, Runner
from pykueue.engine.quota.amounts import UNLIMITED
from pykueue.translate import amounts, pod_set_info, requests
from pykueue.translate.jobs import framework, pods, registry
from pykueue.translate.jobs.framework import JobFramework, JobOptions
from pykueue.translate.pod_set_info import PodSetConflictError, PodSetInfo


def adjusted_resources(case: Case) -> list[Difference]:
    workload = requests.adjusted(
        case["workload"],
        runtime_classes={runtime_class["metadata"]["name"]: runtime_class for runtime_class in case["runtimeClasses"]},
        limit_ranges=case["limitRanges"],
    )
    return differences.between(case["expect"]["workload"], workload)


def new_info(case: Case) -> list[Difference]:
    options = case["config"]["options"]
    rules = requests.RequestRules(
        excluded_prefixes=tuple(options.get("excludedResourcePrefixes") or ()),
        transformations=requests.transformations_from((options.get("resourceTransformations") or {}).values()),
        subtracts_reclaimable_pods=feature_gates(case).get("ReclaimablePods", True),
    )
    pod_sets = requests.total_requests(case["workload"], rules)
    return differences.between(
        case["expect"],
        {
            "clusterQueue": case["workload"].get("status", {}).get("admission", {}).get("clusterQueue", ""),
            "totalRequests": [_pod_set_as_recorded(pod_set) for pod_set in pod_sets],
            "usage": {f"{flavor}/{name}": amount for (flavor, name), amount in requests.usage(pod_sets).items()},
        },
    )


def amount_from_quantity(case: Case) -> list[Difference]:
    value = amounts.of_quota(case["resource"], case["quantity"])
    return differences.between(case["expect"], {"unlimited": value == UNLIMITED, "value": value})


def count_in(case: Case) -> list[Difference]:
    return differences.between(case["expect"]["count"], amounts.count_in(case["requests"], case["capacity"]))


def info_from_assignment(case: Case) -> list[Difference]:
    try:
        info = pod_set_info.from_assignment(
            case["assignment"],
            {"count": case["podSetCount"]},
            flavors={flavor["metadata"]["name"]: flavor for flavor in case["resourceFlavors"]},
            topology_aware=feature_gates(case).get("TopologyAwareScheduling", True),
        )
    except ApiError as error:
        return differences.between(case["expect"]["error"], error.message, "error")
    return differences.between(case["expect"], {"error": None, "info": _info_as_recorded(info)})


def info_merge(case: Case) -> list[Difference]:
    recorded = case["info"]
    info = PodSetInfo(
        annotations=recorded["annotations"] or {},
        labels=recorded["labels"] or {},
        node_selector=recorded["nodeSelector"] or {},
        tolerations=tuple(recorded["tolerations"]),
        scheduling_gates=tuple(recorded["schedulingGates"]),
    )
    try:
        template = pod_set_info.merged_template(
            case["template"], info, elastic_slices=feature_gates(case).get("ElasticJobsViaWorkloadSlices", True)
        )
    except PodSetConflictError as error:
        return differences.between(case["expect"]["error"], str(error), "error")
    return differences.between(case["expect"], {"error": None, "template": template})


def limit_range_summary(case: Case) -> list[Difference]:
    expected = {
        kind: {name: bounds for name, bounds in item.items() if name != "type"}
        for kind, item in case["expect"]["summary"].items()
    }
    return differences.between(expected, limit_range.summarize(case["limitRanges"]))


def limit_range_pod_spec(case: Case) -> list[Difference]:
    path = "spec.podSets[0].template.spec"
    return _field_errors(case, limit_range.pod_spec_errors(case["summary"], case["podSpec"], path))


def limit_range_workload(case: Case) -> list[Difference]:
    summary = limit_range.summarize(case["limitRanges"])
    return _field_errors(case, requests.limit_range_errors(case["workload"], summary))


def requests_within_limits(case: Case) -> list[Difference]:
    return _field_errors(case, limit_range.requests_above_limits(case["workload"]["spec"]["podSets"]))


def _field_errors(case: Case, errors: list[FieldError]) -> list[Difference]:
    expected = [(error["type"], error["message"]) for error in case["expect"]["errors"]]
    return differences.between(expected, [(error.reason, str(error)) for error in errors], "errors")


def _pod_set_as_recorded(pod_set: requests.PodSetRequests) -> Mapping[str, Any]:
    recorded_form: dict[str, Any] = {"name": pod_set.name, "count": pod_set.count, "requests": dict(pod_set.requests)}
    if pod_set.flavors:
        recorded_form["flavors"] = dict(pod_set.flavors)
    if pod_set.placement:
        recorded_form["topologyRequest"] = {
            "Levels": list(pod_set.placement.levels),
            "DomainRequests": [
                {
                    "Values": list(domain.values),
                    "Count": domain.count,
                    "SinglePodRequests": pod_set.placement.single_pod_requests,
                }
                for domain in pod_set.placement.domains
            ],
        }
    return recorded_form


def _info_as_recorded(info: PodSetInfo) -> Mapping[str, Any]:
    return {
        "name": info.name,
        "count": info.count,
        "annotations": dict(info.annotations),
        "labels": dict(info.labels),
        "nodeSelector": dict(info.node_selector),
        "tolerations": list(info.tolerations),
        "schedulingGates": list(info.scheduling_gates),
    }


def pod_sets_of(case: Case, *, kind: JobFramework) -> list[Difference]:
    """Counts the default submitter of a RayJob as Kueue does; for pykueue this is an option."""
    topology_aware = feature_gates(case).get("TopologyAwareScheduling", True)
    options = JobOptions(topology_aware=topology_aware, count_default_submitter=True, scaled=case.get("rayCluster"))
    pod_sets = framework.pod_sets(kind, case["job"], options)
    for pod_set in pod_sets:
        pod_set["template"].setdefault("metadata", {})
    return differences.between(case["expect"]["podSets"], pod_sets)


def pod_sets_of_pod(case: Case) -> list[Difference]:
    topology_aware = feature_gates(case).get("TopologyAwareScheduling", True)
    group = pods.PodGroup(name="", pods=(case["job"],), role_hash=str)
    pod_sets = group.pod_sets(JobOptions(topology_aware=topology_aware))
    for pod_set in pod_sets:
        pod_set["template"].setdefault("metadata", {})
    return differences.between(case["expect"]["podSets"], pod_sets)


RUNNERS: Mapping[str, Runner] = {
    "TestAdjustResources": adjusted_resources,
    "TestNewInfo": new_info,
    "TestAmountFromQuantity": amount_from_quantity,
    "TestCountIn": count_in,
    "TestPodSetInfoFromAssignment": info_from_assignment,
    "TestPodSetInfoMerge": info_merge,
    "TestLimitRangeSummarize": limit_range_summary,
    "TestLimitRangeValidatePodSpec": limit_range_pod_spec,
    "TestValidateLimitRange": limit_range_workload,
    "TestValidateResources": requests_within_limits,
    "PodSets-Pod": pod_sets_of_pod,
    **{f"PodSets-{kind.resource.kind}": partial(pod_sets_of, kind=kind) for kind in registry.FRAMEWORKS.values()},
}
