"""Indexed jobs: indexes, failures per index, success policy."""

from tests.cluster.job_controller.job_fixture import JobFixture

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"


def indexed(**spec):
    return JobFixture(completionMode="Indexed", **{"parallelism": 3, "completions": 3} | spec)


def test_every_index_gets_one_pod_with_its_number_everywhere():
    pods = indexed().sync().pods
    assert [pod["metadata"]["annotations"][INDEX] for pod in pods] == ["0", "1", "2"]
    assert [pod["metadata"]["labels"][INDEX] for pod in pods] == ["0", "1", "2"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["train-0", "train-1", "train-2"]
    assert pods[2]["metadata"]["generateName"] == "train-2-"
    assert pods[2]["spec"]["containers"][0]["env"] == [
        {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}
    ]


def test_completed_indexes_are_compressed():
    fixture = indexed(parallelism=5, completions=5).sync()
    for index in (0, 1, 2, 4):
        fixture.end_index(index)
    assert fixture.sync().status["completedIndexes"] == "0-2,4"
    assert fixture.status["succeeded"] == 4


def test_the_lowest_free_index_comes_next():
    fixture = indexed(parallelism=2, completions=4).sync().end_index(1).sync()
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in fixture.active) == ["0", "2"]


def test_a_failed_index_is_retried():
    fixture = indexed().sync().end_index(1, 1).sync().later(10).sync()
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in fixture.active) == ["0", "1", "2"]


def test_doubled_indexes_lose_one_pod():
    fixture = indexed(completions=1, parallelism=1).sync()
    double = fixture.active[0]
    fixture.api.add(double | {"metadata": double["metadata"] | {"name": "double"}})
    assert len(fixture.sync().active) == 1


def test_failures_are_counted_per_index():
    fixture = indexed(backoffLimitPerIndex=1).sync().end_index(1, 1).sync()
    assert fixture.status["failedIndexes"] == ""
    fixture.later(10).sync()
    retried = [pod for pod in fixture.active if pod["metadata"]["annotations"][INDEX] == "1"]
    assert [pod["metadata"]["annotations"][FAILURES] for pod in retried] == ["1"]
    fixture.end_index(1, 1).sync()
    assert fixture.status["failedIndexes"] == "1"


def test_the_failed_pod_of_an_index_stays_until_its_successor_is_made():
    fixture = indexed(backoffLimitPerIndex=2, completions=1, parallelism=1).sync().end(1).sync()
    assert [pod["metadata"]["finalizers"] for pod in fixture.pods] == [["batch.kubernetes.io/job-tracking"]]
    fixture.later(10).sync().sync()
    assert sorted(len(pod["metadata"]["finalizers"]) for pod in fixture.pods) == [0, 1]


def test_a_job_with_failed_indexes_ends_when_all_others_succeeded():
    fixture = indexed(backoffLimitPerIndex=0).sync().end_index(0, 1).end_index(1).end_index(2).sync()
    assert fixture.condition("Failed") == ("FailedIndexes", "Job has failed indexes")
    assert (fixture.status["failedIndexes"], fixture.status["completedIndexes"]) == ("0", "1,2")


def test_too_many_failed_indexes_end_the_job_early():
    fixture = indexed(backoffLimitPerIndex=0, maxFailedIndexes=0).sync().end_index(0, 1).sync()
    assert fixture.condition("FailureTarget") == (
        "MaxFailedIndexesExceeded",
        "Job has exceeded the specified maximal number of failed indexes",
    )


def test_fail_index_rule_spares_the_retries():
    policy = {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}}]}
    fixture = indexed(backoffLimitPerIndex=5, podFailurePolicy=policy).sync().end_index(2, 3).sync()
    assert fixture.status["failedIndexes"] == "2"


def test_success_policy_by_indexes_ends_the_rest():
    fixture = indexed(successPolicy={"rules": [{"succeededIndexes": "0"}]}).sync().end_index(0).sync()
    assert fixture.condition("SuccessCriteriaMet") == ("SuccessPolicy", "Matched rules at index 0")
    assert fixture.sync().condition("Complete") == ("SuccessPolicy", "Matched rules at index 0")
    assert fixture.status.get("failed") is None


def test_success_policy_by_count():
    rules = [{"succeededIndexes": "0", "succeededCount": 1}, {"succeededCount": 2}]
    fixture = indexed(successPolicy={"rules": rules}).sync().end_index(1).sync()
    assert fixture.condition("SuccessCriteriaMet") is None
    fixture.end_index(2).sync()
    assert fixture.condition("SuccessCriteriaMet") == ("SuccessPolicy", "Matched rules at index 1")


def test_the_generated_prefix_keeps_the_index_of_a_long_name():
    fixture = indexed()
    fixture.job["metadata"]["name"] = "train"
    long = "n" * 63
    job = fixture.api.objects.pop(("Job", "train"))
    job["metadata"]["name"] = long
    fixture.api.objects["Job", "train"] = job
    prefix = fixture.sync().pods[0]["metadata"]["generateName"]
    assert prefix == "n" * 55 + "-0-"
