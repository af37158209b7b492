from tests.cluster.job_controller.shop import Shop


def suspended(condition):
    return {key: condition[key] for key in ("type", "status", "reason", "message")}


def test_a_suspended_job_has_no_pods_and_no_start_time():
    shop = Shop(suspend=True).sync()
    assert shop.pods == []
    assert "startTime" not in shop.status
    assert shop.condition("Suspended") == ("JobSuspended", "Job suspended")
    assert shop.world.event_reasons() == ["Suspended"]


def test_resuming_starts_the_clock_anew():
    shop = Shop(suspend=True).sync().later(100)
    shop.job["spec"]["suspend"] = False
    shop.sync()
    assert shop.status["startTime"] == "2026-01-01T00:01:40Z"
    assert suspended(shop.status["conditions"][0]) == {
        "type": "Suspended",
        "status": "False",
        "reason": "JobResumed",
        "message": "Job resumed",
    }
    assert shop.world.event_reasons() == ["Suspended", "SuccessfulCreate", "Resumed"]


def test_a_job_never_suspended_has_no_such_condition():
    assert "conditions" not in Shop(suspend=False).sync().status


def test_suspending_removes_pods_without_counting_them_as_failed():
    shop = Shop(parallelism=2, completions=2).sync()
    shop.world.start_pod(shop.active[0])
    shop.job["spec"]["suspend"] = True
    shop.sync()
    assert shop.active == []
    assert "startTime" not in shop.status
    assert shop.sync().status.get("failed") is None


def test_the_deadline_does_not_run_while_suspended():
    shop = Shop(activeDeadlineSeconds=10, suspend=True).sync().later(100).sync()
    assert shop.condition("FailureTarget") is None
    shop.job["spec"]["suspend"] = False
    shop.sync()
    assert shop.condition("FailureTarget") is None
    assert len(shop.active) == 1
