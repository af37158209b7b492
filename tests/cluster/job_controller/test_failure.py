"""Backoff limits, deadlines and failure policies."""

import pytest
from tests.cluster.job_controller.job_fixture import JobFixture

from pykueue.api.times import SECOND_NS

FAILED_LIMIT = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")


def rule(action, **requirement):
    return {"rules": [{"action": action, **requirement}]}


def on_exit(fixture, *values):
    return {"onExitCodes": {"operator": fixture, "values": list(values)}}


def test_a_failed_pod_is_replaced_after_ten_seconds():
    fixture = JobFixture().sync().end(1).sync()
    assert (fixture.status["failed"], fixture.active) == (1, [])
    assert fixture.done.requeue_after_ns == 10 * SECOND_NS
    assert len(fixture.later(10).sync().active) == 1


@pytest.mark.parametrize(("failures", "delay"), [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (9, 600)])
def test_the_delay_doubles_up_to_ten_minutes(failures, delay):
    fixture = JobFixture(backoffLimit=20)
    for _ in range(failures):
        fixture.later(600).sync().end(1).sync()
    assert fixture.done.requeue_after_ns == delay * SECOND_NS


def test_a_success_resets_the_delay():
    fixture = JobFixture(completions=3).sync().end(1).sync().later(10).sync().end().sync()
    assert len(fixture.active) == 1


def test_one_failure_more_than_the_limit_fails_the_job():
    fixture = JobFixture(backoffLimit=1).sync().end(1).sync().later(10).sync().end(1).sync()
    assert fixture.condition("Failed") == FAILED_LIMIT
    assert fixture.status["failed"] == 2
    assert ("Warning", *FAILED_LIMIT) in fixture.api.events


def test_a_failed_job_ends_its_other_pods_and_counts_them():
    fixture = JobFixture(backoffLimit=0, parallelism=2, completions=2).sync().end(1).sync()
    assert fixture.condition("FailureTarget") == FAILED_LIMIT
    assert fixture.sync().condition("Failed") == FAILED_LIMIT
    assert fixture.status["failed"] == 2


def test_a_failed_job_waits_for_its_terminating_pods():
    fixture = JobFixture(backoffLimit=0, parallelism=2, completions=2).sync()
    fixture.api.start_pod(fixture.active[1])
    fixture.end(1).sync().sync()
    assert (fixture.condition("Failed"), fixture.status["terminating"]) == (None, 1)


def test_restarts_in_place_count_against_the_limit():
    fixture = JobFixture(backoffLimit=2).sync()
    fixture.job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    pod = fixture.api.get("Pod", fixture.active[0]["metadata"]["name"])
    pod["status"] = {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 2}]}
    assert fixture.sync().condition("FailureTarget") == FAILED_LIMIT


def test_the_deadline_fails_the_job():
    fixture = JobFixture(activeDeadlineSeconds=30).sync()
    assert fixture.done.requeue_after_ns == 30 * SECOND_NS
    fixture.later(30).sync()
    assert fixture.condition("FailureTarget") == ("DeadlineExceeded", "Job was active longer than specified deadline")


def test_fail_job_rule_names_container_and_code():
    fixture = JobFixture(podFailurePolicy=rule("FailJob", **on_exit("In", 42))).sync()
    name = fixture.active[0]["metadata"]["name"]
    fixture.end(42).sync()
    message = f"Container main for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
    assert fixture.condition("Failed") == ("PodFailurePolicy", message)


def test_ignored_failures_do_not_count():
    fixture = JobFixture(backoffLimit=0, podFailurePolicy=rule("Ignore", **on_exit("NotIn", 1, 2))).sync().end(9).sync()
    assert fixture.condition("FailureTarget") is None
    assert "failed" not in fixture.status


def test_a_disrupted_pod_matches_by_condition():
    policy = rule("FailJob", onPodConditions=[{"type": "DisruptionTarget", "status": "True"}])
    fixture = JobFixture(podFailurePolicy=policy).sync()
    name = fixture.active[0]["metadata"]["name"]
    fixture.end(1)
    fixture.api.get("Pod", name)["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    fixture.sync()
    message = f"Pod default/{name} has condition DisruptionTarget matching FailJob rule at index 0"
    assert fixture.condition("Failed") == ("PodFailurePolicy", message)


def test_a_deleted_pod_counts_as_failed_and_is_replaced():
    fixture = JobFixture().sync()
    fixture.api.start_pod(fixture.active[0])
    fixture.api.get("Pod", fixture.active[0]["metadata"]["name"])["metadata"]["deletionTimestamp"] = (
        "2026-01-01T00:00:00Z"
    )
    fixture.sync().later(20).sync()
    assert (fixture.status["failed"], len(fixture.active)) == (1, 1)


def test_replacement_policy_failed_waits_until_the_pod_is_over():
    fixture = JobFixture(podReplacementPolicy="Failed").sync()
    pod = fixture.active[0]
    fixture.api.start_pod(pod)
    fixture.api.get("Pod", pod["metadata"]["name"])["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    fixture.sync()
    assert (len(fixture.pods), fixture.status["terminating"]) == (1, 1)
    fixture.api.end_pod(pod, 143)
    fixture.sync().later(20).sync()
    assert (fixture.status["failed"], len(fixture.active)) == (1, 1)
