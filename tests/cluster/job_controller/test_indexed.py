"""Indexed jobs: indexes, failures per index, success policy."""

from tests.cluster.job_controller.shop import Shop

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"


def indexed(**spec):
    return Shop(completionMode="Indexed", **{"parallelism": 3, "completions": 3} | spec)


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
    shop = indexed(parallelism=5, completions=5).sync()
    for index in (0, 1, 2, 4):
        shop.end_index(index)
    assert shop.sync().status["completedIndexes"] == "0-2,4"
    assert shop.status["succeeded"] == 4


def test_the_lowest_free_index_comes_next():
    shop = indexed(parallelism=2, completions=4).sync().end_index(1).sync()
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in shop.active) == ["0", "2"]


def test_a_failed_index_is_retried():
    shop = indexed().sync().end_index(1, 1).sync().later(10).sync()
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in shop.active) == ["0", "1", "2"]


def test_doubled_indexes_lose_one_pod():
    shop = indexed(completions=1, parallelism=1).sync()
    double = shop.active[0]
    shop.world.add(double | {"metadata": double["metadata"] | {"name": "double"}})
    assert len(shop.sync().active) == 1


def test_failures_are_counted_per_index():
    shop = indexed(backoffLimitPerIndex=1).sync().end_index(1, 1).sync()
    assert shop.status["failedIndexes"] == ""
    shop.later(10).sync()
    retried = [pod for pod in shop.active if pod["metadata"]["annotations"][INDEX] == "1"]
    assert [pod["metadata"]["annotations"][FAILURES] for pod in retried] == ["1"]
    shop.end_index(1, 1).sync()
    assert shop.status["failedIndexes"] == "1"


def test_the_failed_pod_of_an_index_stays_until_its_successor_is_made():
    shop = indexed(backoffLimitPerIndex=2, completions=1, parallelism=1).sync().end(1).sync()
    assert [pod["metadata"]["finalizers"] for pod in shop.pods] == [["batch.kubernetes.io/job-tracking"]]
    shop.later(10).sync().sync()
    assert sorted(len(pod["metadata"]["finalizers"]) for pod in shop.pods) == [0, 1]


def test_a_job_with_failed_indexes_ends_when_all_others_succeeded():
    shop = indexed(backoffLimitPerIndex=0).sync().end_index(0, 1).end_index(1).end_index(2).sync()
    assert shop.condition("Failed") == ("FailedIndexes", "Job has failed indexes")
    assert (shop.status["failedIndexes"], shop.status["completedIndexes"]) == ("0", "1,2")


def test_too_many_failed_indexes_end_the_job_early():
    shop = indexed(backoffLimitPerIndex=0, maxFailedIndexes=0).sync().end_index(0, 1).sync()
    assert shop.condition("FailureTarget") == (
        "MaxFailedIndexesExceeded",
        "Job has exceeded the specified maximal number of failed indexes",
    )


def test_fail_index_rule_spares_the_retries():
    policy = {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}}]}
    shop = indexed(backoffLimitPerIndex=5, podFailurePolicy=policy).sync().end_index(2, 3).sync()
    assert shop.status["failedIndexes"] == "2"


def test_success_policy_by_indexes_ends_the_rest():
    shop = indexed(successPolicy={"rules": [{"succeededIndexes": "0"}]}).sync().end_index(0).sync()
    assert shop.condition("SuccessCriteriaMet") == ("SuccessPolicy", "Matched rules at index 0")
    assert shop.sync().condition("Complete") == ("SuccessPolicy", "Matched rules at index 0")
    assert shop.status.get("failed") is None


def test_success_policy_by_count():
    rules = [{"succeededIndexes": "0", "succeededCount": 1}, {"succeededCount": 2}]
    shop = indexed(successPolicy={"rules": rules}).sync().end_index(1).sync()
    assert shop.condition("SuccessCriteriaMet") is None
    shop.end_index(2).sync()
    assert shop.condition("SuccessCriteriaMet") == ("SuccessPolicy", "Matched rules at index 1")


def test_the_generated_prefix_keeps_the_index_of_a_long_name():
    shop = indexed()
    shop.job["metadata"]["name"] = "train"
    long = "n" * 63
    job = shop.world.objects.pop(("Job", "train"))
    job["metadata"]["name"] = long
    shop.world.objects["Job", "train"] = job
    prefix = shop.sync().pods[0]["metadata"]["generateName"]
    assert prefix == "n" * 55 + "-0-"
