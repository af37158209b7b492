import pytest

from pykueue.controllers.scheduler.job_facts import JobReference


def workload(name, *owners):
    references = [{"kind": kind, "name": owner} for kind, owner in owners]
    return {"metadata": {"name": name, "ownerReferences": references}}


WORKLOADS = [workload("raycluster-train-1a2b3", ("RayCluster", "train")), workload("job-sweep-4c5d6", ("Job", "sweep"))]


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("job", "train", ["raycluster train"]),
        ("workload", "sweep", ["job sweep"]),
        ("job", "sweeps", ["sweep"]),
        ("", "trian", ["train"]),
        ("job", "other", []),
    ],
)
def test_what_may_have_been_meant(kind, name, meant):
    assert JobReference(namespace="ns", name=name, kind=kind).similar_names(WORKLOADS) == meant
