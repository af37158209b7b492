"""Estimated starts: from run times of finished jobs, or an honest "unknown"."""

import json

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulate.test_preview import NOW_NS, cluster_items, live_workload

from pykueue.api import times
from pykueue.api.times import SECOND_NS
from pykueue.cli.main import cli
from pykueue.engine import values
from pykueue.simulate.engine_driver.world import World
from pykueue.simulate.estimates import live, starts
from pykueue.simulate.estimates.run_times import JobTraits, RemainingTime, RunTimes, name_prefix

TARGET = values.WorkloadKey("team-a/waiting")
TRAITS = JobTraits(queue="q", name_prefix="train", size="1")


def finished(name, minutes):
    """A Workload of 4 GPUs that ran so long, two hours ago."""
    obj = live_workload(name, 4, is_admitted=True)
    end_ns = NOW_NS - 7200 * SECOND_NS
    obj["status"]["conditions"][1]["lastTransitionTime"] = times.from_ns(end_ns - minutes * 60 * SECOND_NS)
    obj["status"]["conditions"].append(
        {
            "type": "Finished",
            "status": "True",
            "reason": "Succeeded",
            "message": "",
            "lastTransitionTime": times.from_ns(end_ns),
        }
    )
    return obj


def estimated(*workloads):
    """The estimate of `waiting` in a queue of 4 GPUs; the running job has run for a minute."""
    items = cluster_items(*workloads)
    world = World.from_objects(items, {}, now_ns=NOW_NS)
    by_key = {values.WorkloadKey(f"team-a/{obj['metadata']['name']}"): obj for obj in workloads}
    return live.estimate(world.engine, by_key, TARGET, now_ns=NOW_NS, configuration={})


def history(*minutes):
    return [finished(f"train-{number}", length) for number, length in enumerate(minutes)]


def running():
    return live_workload("train-99", 4, is_admitted=True)


def test_the_start_is_when_the_running_job_ends():
    result = estimated(*history(10, 10, 10, 10, 10), running(), live_workload("waiting", 4))
    assert set(result.waits_ns) == {9 * 60 * SECOND_NS}
    assert starts.text(result.as_json(), NOW_NS) == "Estimated start: in about 9m"


def test_a_bar_says_how_run_times_differ():
    result = estimated(*history(5, 10, 20, 40, 80), running(), live_workload("waiting", 4))
    assert starts.text(result.as_json(), NOW_NS).endswith("(between 4m and 1h19m in nine of ten cases)")


def test_jobs_that_ended_earlier_say_nothing_about_one_that_still_runs():
    """It has run for a minute, so those of half a minute are left out."""
    learned = RunTimes()
    for seconds in (10, 20, 30, 100, 200):
        learned.add(TRAITS, seconds * SECOND_NS)
    assert learned.samples_ns(TRAITS, longer_than_ns=60 * SECOND_NS) == [100 * SECOND_NS, 200 * SECOND_NS]


def test_running_jobs_count_as_longer_than_they_have_run():
    """Half of the jobs still run after 60 seconds, so half of the samples are longer."""
    learned = RunTimes()
    for seconds in (10, 20, 30, 40, 100, 200):
        learned.add(TRAITS, seconds * SECOND_NS)
    without = learned.samples_ns(TRAITS)
    learned.set_running([(TRAITS, 60 * SECOND_NS)] * 4)
    samples = learned.samples_ns(TRAITS)
    assert sum(sample > 60 * SECOND_NS for sample in without) == 2
    assert sum(sample > 60 * SECOND_NS for sample in samples) / len(samples) == pytest.approx(6 / 10, abs=0.1)


def test_running_jobs_say_nothing_about_the_lengths_of_longer_ones():
    learned = RunTimes()
    for seconds in (100, 200, 300, 400, 500):
        learned.add(TRAITS, seconds * SECOND_NS)
    without = learned.samples_ns(TRAITS)
    learned.set_running([(TRAITS, SECOND_NS)] * 3)
    assert learned.samples_ns(TRAITS) == without


def test_jobs_arrive_as_lately():
    """Jobs of higher priority arrived every six minutes, so the waiting one starts later."""
    urgent = [finished(f"urgent-{number}", 5) for number in range(10)]
    for number, obj in enumerate(urgent):
        obj["metadata"]["creationTimestamp"] = times.from_ns(NOW_NS - (number * 360 + 1) * SECOND_NS)
        obj["spec"]["priority"] = 10
    quiet = estimated(*history(10, 10, 10, 10, 10), running(), live_workload("waiting", 4))
    busy = estimated(*urgent, *history(10, 10, 10, 10, 10), running(), live_workload("waiting", 4))
    assert busy.quantile_ns(0.5) > quiet.quantile_ns(0.5)


def test_all_starts_come_from_one_set_of_runs():
    waiting = [live_workload(name, 4, limit=60) for name in ("first", "second")]
    by_key = {values.WorkloadKey(f"team-a/{obj['metadata']['name']}"): obj for obj in waiting}
    world = World.from_objects(cluster_items(*waiting), {}, now_ns=NOW_NS)
    result = live.estimate_all(world.engine, by_key, now_ns=NOW_NS, configuration={})
    assert [set(result[key].waits_ns) for key in sorted(result)] == [{0}, {60 * SECOND_NS}]


def test_names_of_other_namespaces_can_be_hidden():
    result = estimated(running(), live_workload("waiting", 4))
    assert "team-a/train-99" in result.hiding("team-a").unknown
    assert "nobody knows how long a workload of another namespace will run" in result.hiding("team-b").unknown


def test_few_finished_jobs_are_no_experience():
    result = estimated(*history(10, 10, 10, 10), running(), live_workload("waiting", 4))
    assert result.unknown.startswith("nobody knows how long team-a/train-99 will run: it has no time limit")
    assert starts.text(result.as_json(), NOW_NS).startswith("Estimated start: unknown, because nobody knows")


def test_a_job_that_outlived_all_others_is_unknown():
    obj = running()
    for condition in obj["status"]["conditions"]:
        condition["lastTransitionTime"] = times.from_ns(NOW_NS - 3600 * SECOND_NS)
    result = estimated(*history(10, 10, 10, 10, 10), obj, live_workload("waiting", 4))
    assert "team-a/train-99" in result.unknown


def test_a_time_limit_stands_in_for_experience():
    obj = live_workload("train-99", 4, is_admitted=True, limit=300)
    assert set(estimated(obj, live_workload("waiting", 4)).waits_ns) == {240 * SECOND_NS}


def test_a_time_limit_bounds_experience():
    obj = live_workload("train-99", 4, is_admitted=True, limit=300)
    result = estimated(*history(10, 10, 10, 10, 10), obj, live_workload("waiting", 4))
    assert set(result.waits_ns) == {240 * SECOND_NS}


def test_a_workload_that_fits_starts_at_once():
    result = estimated(live_workload("waiting", 4))
    assert starts.text(result.as_json(), NOW_NS) == "Estimated start: at once"


def test_a_workload_that_never_fits_is_unknown():
    assert estimated(live_workload("waiting", 5)).unknown.startswith("it does not start in a simulation")


def test_too_many_jobs_are_not_simulated():
    waiting = [live_workload(f"job-{number}", 4) for number in range(starts.MOST_PENDING)]
    assert estimated(*waiting, live_workload("waiting", 4)).unknown == "too many jobs share its quota (201)"


def test_the_same_input_gives_the_same_estimate():
    objects = [*history(5, 10, 20, 40, 80), running(), live_workload("waiting", 4)]
    assert estimated(*objects) == estimated(*reversed(objects))


@settings(max_examples=15, deadline=None)
@given(minutes=st.lists(st.integers(2, 500), min_size=5, max_size=8), jobs=st.integers(0, 3))
def test_bars_are_ordered_and_load_delays(minutes, jobs):
    """Each job takes all GPUs, so one more before the Workload never lets it start earlier."""

    def with_jobs(count):
        before = [live_workload(f"train-{100 + number}", 4) for number in range(count)]
        return estimated(*history(*minutes), running(), *before, live_workload("waiting", 4))

    one, more = with_jobs(jobs), with_jobs(jobs + 1)
    bar = list(one.as_json().values())
    if not one.unknown:
        assert bar == sorted(bar)
        assert more.unknown or all(first <= later for first, later in zip(one.waits_ns, more.waits_ns, strict=True))


@pytest.mark.parametrize("name", ["train", "train-17", "train-x7k2p", "train-3-x7k2p", "train_1.2"])
def test_a_name_counts_without_its_end(name):
    assert name_prefix(name) == "train"


def test_a_job_beyond_its_limit_ends_now():
    assert RemainingTime(elapsed_ns=9, limit_ns=5).draw_ns(0.5) == 0


def test_estimates_are_scored(tmp_path):
    """Fixed run times, and arrivals that no estimate has to foresee: all bars are right."""
    (tmp_path / "queues.json").write_text(json.dumps({"kind": "List", "items": cluster_items()}))
    words = ["simulate", "-f", str(tmp_path / "queues.json"), "--score-estimates", "-o", "json"]
    result = CliRunner().invoke(cli, [*words, "--generate", "jobs=60 rate=6/h sizes=4 run=fixed(12m) seed=1"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output)
    assert (figures["scored"], figures["unknown"]) == (30, 0)
    assert figures["waited"]["jobs"] > 10
    assert (figures["waited"]["coverage90"], figures["waited"]["medianErrorSeconds"]) == (1.0, 0.0)


def test_a_score_is_of_the_queues_as_they_are(tmp_path):
    (tmp_path / "queues.json").write_text(json.dumps({"kind": "List", "items": cluster_items()}))
    words = ["simulate", "-f", str(tmp_path / "queues.json"), "--generate", "jobs=4", "--score-estimates"]
    result = CliRunner().invoke(cli, [*words, "--set", "clusterqueue/team-a.nominalQuota[nvidia.com/gpu]=8"])
    assert (result.exit_code, "leave out --set" in result.output) == (2, True)
