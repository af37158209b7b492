"""Known behaviour of Kueue: a flavor scan that goes on misses quota of the flavors before it.

`docs/differences.md` names the feature gate that avoids it.
"""

import pytest
from tests.engine import builders as b

from pykueue.engine import decisions, events, values
from pykueue.engine.policy import Policy

CYCLES = 20


def flavor_quotas(name):
    return values.FlavorQuotas(name=name, resources={"cpu": values.Quota(nominal=2)})


def workload(name, *pod_sets, **fields):
    return values.Workload(
        key=f"ns/{name}",
        uid=name,
        namespace="ns",
        local_queue="ns/a",
        created_at_ns=0,
        priority=0,
        pod_sets=tuple(values.PodSet(name=pod_set, count=1, spec_count=1, requests={"cpu": 1}) for pod_set in pod_sets),
        **fields,
    )


def running(name, flavor):
    pod_set = values.PodSetAdmission(name="main", flavors={"cpu": flavor}, usage={"cpu": 1}, count=1)
    admission = values.Admission(cluster_queue="a", pod_sets=(pod_set,))
    return workload(name, "main", admission=admission, reserved_at_ns=5, admitted=True)


@pytest.fixture
def engine_with():
    """Flavor `first` has 1 of 2 CPUs in use, flavor `second` 2 of 2; two pod sets wait."""

    def build(policy):
        engine = b.engine(policy)
        engine.handle(events.NamespaceChanged(name="ns", labels={}))
        for name in ("first", "second"):
            engine.handle(events.FlavorChanged(flavor=values.ResourceFlavor(name=name)))
        group = values.ResourceGroup(
            covered_resources=("cpu",), flavors=(flavor_quotas("first"), flavor_quotas("second"))
        )
        queue = values.ClusterQueue(name="a", namespace_selector=values.LabelSelector(), resource_groups=(group,))
        engine.handle(events.ClusterQueueChanged(cluster_queue=queue))
        engine.handle(events.LocalQueueChanged(local_queue=values.LocalQueue(key="ns/a", cluster_queue="a")))
        admitted = (running("x", "first"), running("y", "second"), running("z", "second"))
        for added in (*admitted, workload("w", "head", "workers")):
            engine.handle(events.WorkloadArrived(workload=added))
        return engine

    return build


def is_admitted(engine):
    """Whether a workload is admitted within many cycles."""
    return any(
        isinstance(decision, decisions.Admit) for _ in range(CYCLES) for decision in engine.handle(events.CycleDue())
    )


@pytest.mark.parametrize("preserve_scan_progress", [True, False])
def test_pod_sets_whose_scans_are_out_of_step_wait_although_they_fit(engine_with, preserve_scan_progress):
    engine = engine_with(Policy(preserve_scan_progress=preserve_scan_progress))
    assert not is_admitted(engine)
    engine.handle(events.WorkloadGone(key="ns/x"))
    assert is_admitted(engine) == (not preserve_scan_progress)
