from tests.cluster.job_controller.job_fixture import JobFixture


def suspended(condition):
    return {key: condition[key] for key in ("type", "status", "reason", "message")}


def test_a_suspended_job_has_no_pods_and_no_start_time():
    fixture = JobFixture(suspend=True).sync()
    assert fixture.pods == []
    assert "startTime" not in fixture.status
    assert fixture.condition("Suspended") == ("JobSuspended", "Job suspended")
    assert fixture.api.event_reasons() == ["Suspended"]


def test_resuming_sets_a_new_start_time():
    fixture = JobFixture(suspend=True).sync().later(100)
    fixture.job["spec"]["suspend"] = False
    fixture.sync()
    assert fixture.status["startTime"] == "2026-01-01T00:01:40Z"
    assert suspended(fixture.status["conditions"][0]) == {
        "type": "Suspended",
        "status": "False",
        "reason": "JobResumed",
        "message": "Job resumed",
    }
    assert fixture.api.event_reasons() == ["Suspended", "SuccessfulCreate", "Resumed"]


def test_a_job_never_suspended_has_no_such_condition():
    assert "conditions" not in JobFixture(suspend=False).sync().status


def test_suspending_removes_pods_without_counting_them_as_failed():
    fixture = JobFixture(parallelism=2, completions=2).sync()
    fixture.api.start_pod(fixture.active[0])
    fixture.job["spec"]["suspend"] = True
    fixture.sync()
    assert fixture.active == []
    assert "startTime" not in fixture.status
    assert fixture.sync().status.get("failed") is None


def test_the_deadline_does_not_run_while_suspended():
    fixture = JobFixture(activeDeadlineSeconds=10, suspend=True).sync().later(100).sync()
    assert fixture.condition("FailureTarget") is None
    fixture.job["spec"]["suspend"] = False
    fixture.sync()
    assert fixture.condition("FailureTarget") is None
    assert len(fixture.active) == 1
