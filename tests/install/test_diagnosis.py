"""Each problem of a cluster is found, and each finding of a problem names the command that repairs it."""

from dataclasses import replace

import pytest

from pykueue.api.scheme import Resource
from pykueue.install import diagnosis
from pykueue.install.diagnosis import Facts

JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)
HEALTHY = Facts(
    version=(1, 36),
    clock_error_seconds=0.4,
    wanted_definitions=frozenset({"workloads.kueue.x-k8s.io"}),
    definitions={"workloads.kueue.x-k8s.io": {"spec": {}}},
    wanted_policies=frozenset({"suspend"}),
    policies=frozenset({"suspend", "of-others"}),
    lease_holder="one",
    lease_age_seconds=1,
    frameworks={"batch/job": JOBS},
    served=frozenset({("batch", "jobs")}),
)
CONVERTED = {"workloads.kueue.x-k8s.io": {"spec": {"conversion": {"strategy": "Webhook"}}}}


def test_a_healthy_cluster_has_no_problem():
    assert all(finding.is_good for finding in diagnosis.findings(HEALTHY))


@pytest.mark.parametrize(
    ("subject", "change"),
    [
        ("version", {"version": (1, 31)}),
        ("clock", {"clock_error_seconds": -60}),
        ("definitions", {"definitions": {}}),
        ("definitions", {"definitions": CONVERTED}),
        ("policies", {"policies": frozenset()}),
        ("webhooks", {"webhooks": ("kueue-mutating-webhook-configuration",)}),
        ("rights", {"missing_rights": ("patch jobs",)}),
        ("leader", {"lease_holder": ""}),
        ("leader", {"lease_age_seconds": 3600}),
        ("framework", {"served": frozenset()}),
    ],
)
def test_a_problem_is_found_with_its_repair(subject, change):
    problems = [finding for finding in diagnosis.findings(replace(HEALTHY, **change)) if not finding.is_good]
    assert [finding.subject for finding in problems] == [subject]
    assert problems[0].repair
