"""Backoff limits, deadlines and failure policies."""

import pytest
from tests.cluster.job_controller.shop import Shop

FAILED_LIMIT = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")


def rule(action, **requirement):
    return {"rules": [{"action": action, **requirement}]}


def on_exit(operator, *values):
    return {"onExitCodes": {"operator": operator, "values": list(values)}}


def test_a_failed_pod_is_replaced_after_ten_seconds():
    shop = Shop().sync().end(1).sync()
    assert (shop.status["failed"], shop.active) == (1, [])
    assert shop.done.look_again_after == 10
    assert len(shop.later(10).sync().active) == 1


@pytest.mark.parametrize(("failures", "delay"), [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (9, 600)])
def test_the_delay_doubles_up_to_ten_minutes(failures, delay):
    shop = Shop(backoffLimit=20)
    for _ in range(failures):
        shop.later(600).sync().end(1).sync()
    assert shop.done.look_again_after == delay


def test_a_success_resets_the_delay():
    shop = Shop(completions=3).sync().end(1).sync().later(10).sync().end().sync()
    assert len(shop.active) == 1


def test_one_failure_more_than_the_limit_fails_the_job():
    shop = Shop(backoffLimit=1).sync().end(1).sync().later(10).sync().end(1).sync()
    assert shop.condition("Failed") == FAILED_LIMIT
    assert shop.status["failed"] == 2
    assert ("Warning", *FAILED_LIMIT) in shop.world.events


def test_a_failed_job_ends_its_other_pods_and_counts_them():
    shop = Shop(backoffLimit=0, parallelism=2, completions=2).sync().end(1).sync()
    assert shop.condition("FailureTarget") == FAILED_LIMIT
    assert shop.sync().condition("Failed") == FAILED_LIMIT
    assert shop.status["failed"] == 2


def test_a_failed_job_waits_for_its_terminating_pods():
    shop = Shop(backoffLimit=0, parallelism=2, completions=2).sync()
    shop.world.start_pod(shop.active[1])
    shop.end(1).sync().sync()
    assert (shop.condition("Failed"), shop.status["terminating"]) == (None, 1)


def test_restarts_in_place_count_against_the_limit():
    shop = Shop(backoffLimit=2).sync()
    shop.job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    pod = shop.world.get("Pod", shop.active[0]["metadata"]["name"])
    pod["status"] = {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 2}]}
    assert shop.sync().condition("FailureTarget") == FAILED_LIMIT


def test_the_deadline_fails_the_job():
    shop = Shop(activeDeadlineSeconds=30).sync()
    assert shop.done.look_again_after == 30
    shop.later(30).sync()
    assert shop.condition("FailureTarget") == ("DeadlineExceeded", "Job was active longer than specified deadline")


def test_fail_job_rule_names_container_and_code():
    shop = Shop(podFailurePolicy=rule("FailJob", **on_exit("In", 42))).sync()
    name = shop.active[0]["metadata"]["name"]
    shop.end(42).sync()
    message = f"Container main for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
    assert shop.condition("Failed") == ("PodFailurePolicy", message)


def test_ignored_failures_do_not_count():
    shop = Shop(backoffLimit=0, podFailurePolicy=rule("Ignore", **on_exit("NotIn", 1, 2))).sync().end(9).sync()
    assert shop.condition("FailureTarget") is None
    assert "failed" not in shop.status


def test_a_disrupted_pod_matches_by_condition():
    policy = rule("FailJob", onPodConditions=[{"type": "DisruptionTarget", "status": "True"}])
    shop = Shop(podFailurePolicy=policy).sync()
    name = shop.active[0]["metadata"]["name"]
    shop.end(1)
    shop.world.get("Pod", name)["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    shop.sync()
    message = f"Pod default/{name} has condition DisruptionTarget matching FailJob rule at index 0"
    assert shop.condition("Failed") == ("PodFailurePolicy", message)


def test_a_deleted_pod_counts_as_failed_and_is_replaced():
    shop = Shop().sync()
    shop.world.start_pod(shop.active[0])
    shop.world.get("Pod", shop.active[0]["metadata"]["name"])["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    shop.sync().later(20).sync()
    assert (shop.status["failed"], len(shop.active)) == (1, 1)


def test_replacement_policy_failed_waits_until_the_pod_is_over():
    shop = Shop(podReplacementPolicy="Failed").sync()
    pod = shop.active[0]
    shop.world.start_pod(pod)
    shop.world.get("Pod", pod["metadata"]["name"])["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    shop.sync()
    assert (len(shop.pods), shop.status["terminating"]) == (1, 1)
    shop.world.end_pod(pod, 143)
    shop.sync().later(20).sync()
    assert (shop.status["failed"], len(shop.active)) == (1, 1)
