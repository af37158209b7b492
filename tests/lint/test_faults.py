import functools

import pytest
from tests.lint.configurations import configuration, lint
from tests.lint.faulty_sets import FAULTY

from pykueue.api.manifest_validation import Severity
from pykueue.lint import checks

WITHOUT_JOBS = {
    ("pod-too-large", "Job"),
    ("flavor-without-nodes", "ResourceFlavor"),
    ("flavor-never-reached", "ResourceFlavor"),
    ("weight-without-effect", "ClusterQueue"),
    ("zero-fair-weight", "Cohort"),
    ("zero-fair-weight", "LocalQueue"),
    ("admission-scope-without-effect", "ClusterQueue"),
    ("defined-twice", "ClusterQueue"),
    ("invalid-manifest", "ClusterQueue"),
    ("unknown-cluster-queue", "LocalQueue"),
    ("unknown-flavor", "ClusterQueue"),
    ("unknown-flavor", "Cohort"),
    ("unknown-local-queue", "Job"),
    ("queue-stopped", "ClusterQueue"),
    ("queue-stopped", "LocalQueue"),
}
"""Rules that compare values of the set; the engine has nothing to decide about them."""


def test_there_are_forty_faulty_sets():
    assert len(FAULTY) >= 40


@functools.cache
def findings_of(name):
    rule, _, objects = FAULTY[name]
    return [finding for finding in lint(objects) if finding.rule.id == rule]


@pytest.mark.parametrize("name", FAULTY)
def test_the_fault_is_found_with_its_line(name):
    _, kind, _ = FAULTY[name]
    findings = [finding for finding in findings_of(name) if finding.subject.kind == kind]
    assert any(finding.level is not Severity.NOTE for finding in findings)
    assert all(finding.line for finding in findings)


@pytest.mark.parametrize("rule", [rule.id for rule in checks.RULES])
def test_every_rule_has_a_faulty_set(rule):
    assert rule in {rule for rule, _, _ in FAULTY.values()}


@pytest.mark.parametrize("name", [name for name, (rule, kind, _) in FAULTY.items() if (rule, kind) not in WITHOUT_JOBS])
def test_the_engine_plays_the_example(name):
    assert any(finding.example for finding in findings_of(name))


def test_a_circle_of_preemptions_comes_again_and_again():
    (finding,) = findings_of("priority-reclaim-and-borrowing")
    preemptions = [line for line in finding.example if "preempts" in line]
    assert len(preemptions) > len(set(preemptions))


def test_the_loop_guard_ends_the_circle():
    _, _, objects = FAULTY["priority-reclaim-and-borrowing"]
    findings = lint([configuration(preemptionLoopGuard=True), *objects])
    assert "preemption-cycle" not in {finding.rule.id for finding in findings}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("local-queue-of-misspelled-cluster-queue", "there is no ClusterQueue taem; did you mean team?"),
        ("job-of-misspelled-local-queue", "there is no LocalQueue trian in namespace default; did you mean train?"),
        (
            "job-of-a-queue-in-another-namespace",
            "there is no LocalQueue theirs in namespace default; it is in namespace other",
        ),
        ("cluster-queue-of-misspelled-flavor", "there is no ResourceFlavor sopt; did you mean spot?"),
    ],
)
def test_a_misspelled_name_gets_a_suggestion(name, hint):
    assert [finding.message for finding in findings_of(name)] == [hint]
