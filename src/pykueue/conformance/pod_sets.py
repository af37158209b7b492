"""Recordings of the pod sets that each kind of job has."""

from functools import partial

from pykueue.conformance import differences
from pykueue.conformance.corpus import Case, feature_gates
from pykueue.conformance.differences import Difference
from pykueue.translate.jobs import framework, pods, registry
from pykueue.translate.jobs.framework import Framework, Options


def pod_sets_of(case: Case, *, kind: Framework) -> list[Difference]:
    """Kueue counts a RayJob's default submitter; we do when asked."""
    topology_aware = feature_gates(case).get("TopologyAwareScheduling", True)
    options = Options(topology_aware=topology_aware, count_default_submitter=True, scaled=case.get("rayCluster"))
    found = framework.pod_sets(kind, case["job"], options)
    for pod_set in found:
        pod_set["template"].setdefault("metadata", {})
    return differences.between(case["expect"]["podSets"], found)


def pod_sets_of_pod(case: Case) -> list[Difference]:
    topology_aware = feature_gates(case).get("TopologyAwareScheduling", True)
    group = pods.Group(name="", pods=(case["job"],), role_hash=str)
    found = group.pod_sets(Options(topology_aware=topology_aware))
    for pod_set in found:
        pod_set["template"].setdefault("metadata", {})
    return differences.between(case["expect"]["podSets"], found)


RUNNERS = {
    f"PodSets-{kind.resource.kind}": partial(pod_sets_of, kind=kind) for kind in registry.FRAMEWORKS.values()
} | {"PodSets-Pod": pod_sets_of_pod}
