"""Pods up and down, counted once, and the end of a job."""

from tests.cluster.job_controller.shop import Shop

from pykueue.cluster.job_controller import replicas


def test_first_sync_creates_parallelism_pods_and_starts():
    shop = Shop(parallelism=3, completions=5).sync()
    assert len(shop.active) == 3
    assert shop.status == {
        "startTime": "2026-01-01T00:00:00Z",
        "active": 3,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }


def test_a_pod_carries_the_job_and_the_tracking_finalizer():
    (pod,) = Shop().sync().pods
    assert pod["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "train"
    assert pod["metadata"]["generateName"] == "train-"


def test_a_succeeded_pod_completes_the_job():
    shop = Shop().sync().end().sync()
    assert shop.condition("Complete") == ("CompletionsReached", "Reached expected number of succeeded pods")
    assert shop.status["succeeded"] == 1
    assert shop.status["completionTime"] == "2026-01-01T00:00:00Z"
    assert "active" not in shop.status


def test_the_interim_condition_precedes_the_final_one():
    shop = Shop().sync().end().sync()
    assert [condition["type"] for condition in shop.status["conditions"]] == ["SuccessCriteriaMet", "Complete"]


def test_events_tell_creation_and_completion():
    shop = Shop().sync().end().sync()
    assert shop.world.event_reasons() == ["SuccessfulCreate", "Completed"]


def test_no_more_pods_than_completions_left():
    shop = Shop(parallelism=3, completions=4).sync().end().end().sync()
    assert len(shop.active) == 2


def test_without_completions_one_success_stops_creation():
    shop = Shop(parallelism=2)
    del shop.job["spec"]["completions"]
    shop.sync().end().sync()
    assert len(shop.active) == 1
    assert shop.condition("Complete") is None
    assert shop.end().sync().condition("Complete") is not None


def test_finished_pods_lose_their_finalizer():
    shop = Shop().sync().end().sync()
    assert [pod["metadata"]["finalizers"] for pod in shop.pods] == [[]]


def test_lowering_parallelism_removes_the_pod_that_loses_least():
    shop = Shop(parallelism=2, completions=2).sync()
    shop.world.start_pod(shop.active[0])
    running = shop.active[0]["metadata"]["name"]
    shop.job["spec"]["parallelism"] = 1
    shop.sync()
    assert [pod["metadata"]["name"] for pod in shop.active] == [running]
    assert shop.status.get("failed") is None


def test_one_sync_creates_a_bounded_number_of_pods():
    assert len(Shop(parallelism=600, completions=600).sync().active) == replicas.MOST_PER_SYNC


def test_a_refused_creation_is_told_and_not_repeated_for_each_pod():
    shop = Shop(parallelism=8, completions=8)
    shop.world.refuse = lambda write: type(write).__name__ == "Create"
    shop.sync()
    assert shop.world.events == [("Warning", "FailedCreate", 'Error creating: pods "x" is forbidden: no')]
    assert len(shop.done.errors) == 1


def test_a_sync_without_news_writes_nothing():
    shop = Shop().sync()
    version = shop.job["metadata"]["resourceVersion"]
    assert shop.sync().job["metadata"]["resourceVersion"] == version


def test_a_job_of_zero_completions_is_complete_at_once():
    assert Shop(completions=0).sync().condition("Complete") is not None


def test_ready_pods_are_counted():
    shop = Shop(parallelism=2, completions=2).sync()
    shop.world.start_pod(shop.active[0])
    assert shop.sync().status["ready"] == 1


def test_a_job_being_deleted_gets_no_new_pods():
    shop = Shop()
    shop.job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert shop.sync().pods == []
