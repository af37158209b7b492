"""Each problem of a cluster is found, and its finding has the command that repairs it."""

import pytest
from msgspec.structs import replace

from pykueue.api import resources
from pykueue.install import diagnosis
from pykueue.install.diagnosis import Facts, WebhookFacts

JOBS = resources.JOB
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


WEBHOOKS = WebhookFacts(days_left=300, ready_endpoints=2)


def test_webhooks_stand_for_policies_in_an_older_cluster():
    older = replace(HEALTHY, version=(1, 31), policies=frozenset(), own_webhooks=WEBHOOKS)
    assert all(finding.is_good for finding in diagnosis.findings(older))


@pytest.mark.parametrize(
    ("subject", "change"),
    [
        ("webhooks", {"missing": ("MutatingWebhookConfiguration pykueue-webhooks",)}),
        ("certificate", {"days_left": None}),
        ("certificate", {"days_left": -1}),
        ("certificate", {"is_trusted": False}),
        ("service", {"ready_endpoints": 0}),
    ],
)
def test_a_problem_of_webhooks_is_found_with_its_repair(subject, change):
    facts = replace(HEALTHY, own_webhooks=replace(WEBHOOKS, **change))
    problems = [finding for finding in diagnosis.findings(facts) if not finding.is_good]
    assert [(finding.subject, bool(finding.repair)) for finding in problems] == [(subject, True)]


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
        ("visibility", {"unreachable": frozenset({"visibility.kueue.x-k8s.io"})}),
        ("framework", {"served": frozenset()}),
    ],
)
def test_a_problem_is_found_with_its_repair(subject, change):
    problems = [finding for finding in diagnosis.findings(replace(HEALTHY, **change)) if not finding.is_good]
    assert [finding.subject for finding in problems] == [subject]
    assert problems[0].repair


def test_a_repair_keeps_the_configuration():
    facts = replace(HEALTHY, policies=frozenset(), print_part="pykueue manifests {part} --config mine.yaml")
    (problem,) = [finding for finding in diagnosis.findings(facts) if not finding.is_good]
    assert problem.repair.startswith("pykueue manifests policies --config mine.yaml | kubectl apply ")
