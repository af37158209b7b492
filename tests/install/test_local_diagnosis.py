"""Problems of `pykueue up` are found, and each has a command."""

import pytest
from msgspec.structs import replace

from pykueue.install import local_diagnosis
from pykueue.install.diagnosis import Finding
from pykueue.install.local_diagnosis import LocalFacts


def with_condition(name, condition_type, *, status="True", message="", **spec):
    condition = {"type": condition_type, "status": status, "reason": "R", "message": message}
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [condition]}}


NODE = with_condition("vm", "Ready")
NODE["metadata"]["annotations"] = {"pykueue.dev/created-by-runtime": "process"}
HEALTHY = LocalFacts(
    version="v1.36.0+pykueue",
    nodes=(NODE,),
    cluster_queues=(with_condition("team", "Active"),),
    local_queues=(with_condition("train", "Active"),),
)


def test_a_healthy_machine_has_no_problem():
    findings = list(local_diagnosis.findings(HEALTHY))
    assert all(finding.is_good for finding in findings)
    assert [finding.detail for finding in findings if finding.subject == "runtime"] == ["process"]


def test_a_new_machine_has_no_problem():
    assert all(
        finding.is_good for finding in local_diagnosis.findings(replace(HEALTHY, cluster_queues=(), local_queues=()))
    )


MISSING = "references missing ResourceFlavor(s): nope"


@pytest.mark.parametrize(
    ("change", "subject", "words"),
    [
        ({"nodes": ()}, "runtime", "there are no nodes"),
        ({"nodes": (with_condition("vm", "Ready", status="False"),)}, "nodes", "not ready: vm"),
        ({"nodes": (with_condition("vm", "Ready", unschedulable=True),)}, "nodes", "cordoned: vm"),
        ({"cluster_queues": (with_condition("t", "Active", status="False", message=MISSING),)}, "queues", MISSING),
        ({"limits": ("featureGates.X: has no effect",)}, "settings", "featureGates.X: has no effect"),
        ({"stuck_jobs": (("pykueue explain w", "It can never start"),)}, "jobs", "It can never start"),
    ],
)
def test_a_problem_is_found_with_its_command(change, subject, words):
    [problem] = [finding for finding in local_diagnosis.findings(replace(HEALTHY, **change)) if not finding.is_good]
    assert (problem.subject, bool(problem.repair)) == (subject, True)
    assert words in problem.text()


GROUPS = [{"flavors": [{"name": "default"}, {"name": "nope"}]}]


@pytest.mark.parametrize(
    ("change", "command"),
    [
        (
            {"cluster_queues": (with_condition("team", "Active", status="False", resourceGroups=GROUPS),)},
            "pykueue create resourceflavor nope",
        ),
        (
            {"cluster_queues": (with_condition("team", "Active", status="False", stopPolicy="Hold"),)},
            "pykueue resume clusterqueue team",
        ),
        (
            {"local_queues": (with_condition("train", "Active", status="False", clusterQueue="other"),)},
            "pykueue create clusterqueue other --nominal-quota FLAVOR:cpu=4",
        ),
        (
            {"local_queues": (with_condition("t", "Active", status="False", clusterQueue="team", stopPolicy="Hold"),)},
            "pykueue resume localqueue t",
        ),
    ],
)
def test_a_queue_is_repaired_by_a_command(change, command):
    facts = replace(HEALTHY, flavors=frozenset({"default"}), **change)
    [problem] = [finding for finding in local_diagnosis.findings(facts) if not finding.is_good]
    assert problem.repair == command


def test_long_lists_are_shortened():
    finding = Finding(subject="s", is_good=False, detail="missing:", names=tuple("abcdef"))
    assert finding.text(2) == "missing: a, b and 4 more (-v)"
    assert finding.text() == "missing: a, b, c, d, e, f"
