"""Pods up and down, counted once, and the end of a job."""

from tests.cluster.job_controller.job_fixture import JobFixture

from pykueue.cluster import pod_control


def test_first_sync_creates_parallelism_pods_and_starts():
    fixture = JobFixture(parallelism=3, completions=5).sync()
    assert len(fixture.active) == 3
    assert fixture.status == {
        "startTime": "2026-01-01T00:00:00Z",
        "active": 3,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }


def test_a_pod_carries_the_job_and_the_tracking_finalizer():
    (pod,) = JobFixture().sync().pods
    assert pod["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "train"
    assert pod["metadata"]["generateName"] == "train-"


def test_a_succeeded_pod_completes_the_job():
    fixture = JobFixture().sync().end().sync()
    assert fixture.condition("Complete") == ("CompletionsReached", "Reached expected number of succeeded pods")
    assert fixture.status["succeeded"] == 1
    assert fixture.status["completionTime"] == "2026-01-01T00:00:00Z"
    assert "active" not in fixture.status


def test_the_interim_condition_precedes_the_final_one():
    fixture = JobFixture().sync().end().sync()
    assert [condition["type"] for condition in fixture.status["conditions"]] == ["SuccessCriteriaMet", "Complete"]


def test_creation_and_completion_emit_events():
    fixture = JobFixture().sync().end().sync()
    assert fixture.api.event_reasons() == ["SuccessfulCreate", "Completed"]


def test_no_more_pods_than_completions_left():
    fixture = JobFixture(parallelism=3, completions=4).sync().end().end().sync()
    assert len(fixture.active) == 2


def test_without_completions_one_success_stops_creation():
    fixture = JobFixture(parallelism=2)
    del fixture.job["spec"]["completions"]
    fixture.sync().end().sync()
    assert len(fixture.active) == 1
    assert fixture.condition("Complete") is None
    assert fixture.end().sync().condition("Complete") is not None


def test_finished_pods_lose_their_finalizer():
    fixture = JobFixture().sync().end().sync()
    assert [pod["metadata"]["finalizers"] for pod in fixture.pods] == [[]]


def test_lowering_parallelism_removes_the_pod_that_loses_least():
    fixture = JobFixture(parallelism=2, completions=2).sync()
    fixture.api.start_pod(fixture.active[0])
    running = fixture.active[0]["metadata"]["name"]
    fixture.job["spec"]["parallelism"] = 1
    fixture.sync()
    assert [pod["metadata"]["name"] for pod in fixture.active] == [running]
    assert fixture.status.get("failed") is None


def test_one_sync_creates_a_bounded_number_of_pods():
    assert len(JobFixture(parallelism=600, completions=600).sync().active) == pod_control.MOST_PER_SYNC


def test_a_refused_creation_emits_one_event_and_stops():
    fixture = JobFixture(parallelism=8, completions=8)
    fixture.api.refuse = lambda write: type(write).__name__ == "Create"
    fixture.sync()
    assert fixture.api.events == [("Warning", "FailedCreate", 'Error creating: pods "x" is forbidden: no')]
    assert len(fixture.done.errors) == 1


def test_a_sync_without_news_writes_nothing():
    fixture = JobFixture().sync()
    version = fixture.job["metadata"]["resourceVersion"]
    assert fixture.sync().job["metadata"]["resourceVersion"] == version


def test_a_job_of_zero_completions_is_complete_at_once():
    assert JobFixture(completions=0).sync().condition("Complete") is not None


def test_ready_pods_are_counted():
    fixture = JobFixture(parallelism=2, completions=2).sync()
    fixture.api.start_pod(fixture.active[0])
    assert fixture.sync().status["ready"] == 1


def test_a_job_being_deleted_gets_no_new_pods():
    fixture = JobFixture()
    fixture.job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert fixture.sync().pods == []
