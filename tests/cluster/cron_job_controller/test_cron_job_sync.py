import copy
import time

import pytest
from tests.cluster.fake_api import FakeApi

from pykueue.api import times
from pykueue.api.times import SECOND_NS
from pykueue.cluster.cron_job_controller import schedule as cron_schedule
from pykueue.cluster.cron_job_controller import sync


class CronJobFixture:
    def __init__(self, **spec):
        self.api = FakeApi()
        self.api.add(
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "nightly"},
                "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {"template": {}}}} | spec,
            }
        )
        self.done = None

    @property
    def cron_job(self):
        return self.api.get("CronJob", "nightly")

    @property
    def jobs(self):
        return [job["metadata"]["name"] for job in self.api.of("Job")]

    def sync(self, after=0):
        self.api.pass_time(after)
        steps = sync.sync(copy.deepcopy(self.cron_job), self.api.of("Job"), self.api.now)
        self.done = self.api.run(steps)
        return self

    def finish(self, which=-1, type_="Complete"):
        job = self.api.get("Job", self.jobs[which])
        moment = f"2026-01-01T00:{len(self.jobs):02d}:00Z"
        job["status"] = {
            "startTime": moment,
            "completionTime": moment,
            "conditions": [{"type": type_, "status": "True"}],
        }
        return self


def test_nothing_starts_before_it_is_due():
    fixture = CronJobFixture().sync(after=60)
    assert fixture.jobs == []
    assert fixture.done.requeue_after_ns == 540 * SECOND_NS


def test_a_due_time_makes_one_job_named_after_it():
    fixture = CronJobFixture().sync(after=601)
    assert fixture.jobs == ["nightly-29453770"]
    assert fixture.cron_job["status"]["lastScheduleTime"] == "2026-01-01T00:10:00Z"
    assert [reference["name"] for reference in fixture.cron_job["status"]["active"]] == fixture.jobs
    assert fixture.sync().jobs == ["nightly-29453770"]


def test_only_the_latest_missed_time_is_started():
    assert CronJobFixture().sync(after=3605).jobs == ["nightly-29453820"]


def test_a_time_missed_beyond_the_deadline_is_not_started():
    assert CronJobFixture(startingDeadlineSeconds=5).sync(after=630).jobs == []


def test_forbid_waits_for_the_running_job():
    fixture = CronJobFixture(concurrencyPolicy="Forbid").sync(after=601).sync(after=600)
    assert len(fixture.jobs) == 1
    assert fixture.api.event_reasons() == ["SuccessfulCreate", "JobAlreadyActive"]


def test_replace_deletes_the_running_job():
    fixture = CronJobFixture(concurrencyPolicy="Replace").sync(after=601).sync(after=600)
    assert fixture.jobs == ["nightly-29453780"]
    assert len(fixture.cron_job["status"]["active"]) == 1


def test_a_finished_job_leaves_the_active_list():
    fixture = CronJobFixture().sync(after=601).finish().sync()
    assert "active" not in fixture.cron_job["status"]
    assert fixture.cron_job["status"]["lastSuccessfulTime"] == "2026-01-01T00:01:00Z"
    assert "SawCompletedJob" in fixture.api.event_reasons()


def test_history_keeps_the_newest():
    fixture = CronJobFixture(successfulJobsHistoryLimit=1)
    for _ in range(3):
        fixture.sync(after=600).finish()
    assert fixture.sync().jobs == ["nightly-29453790"]


def test_a_suspended_cron_job_starts_nothing():
    assert CronJobFixture(suspend=True).sync(after=601).jobs == []


def test_the_time_zone_moves_the_schedule():
    fixture = CronJobFixture(schedule="0 9 * * *", timeZone="Asia/Seoul").sync(after=1)
    assert fixture.jobs == []
    assert fixture.done.requeue_after_ns == 86399 * SECOND_NS


def test_an_unparseable_schedule_emits_an_event():
    assert CronJobFixture(schedule="whenever").sync().api.event_reasons() == ["UnparseableSchedule"]


@pytest.mark.parametrize("schedule", ["* * * * *", "@every 1s", "*/7 3 * 1-6 1", "* * 1 1 *"])
def test_years_of_missed_times_are_not_visited_one_by_one(schedule):
    fixture = CronJobFixture(schedule=schedule)
    started = time.process_time()
    fixture.sync(after=3 * 365 * 24 * 3600 + 1)
    assert time.process_time() - started < 2
    last = times.parse(fixture.cron_job["status"]["lastScheduleTime"])
    assert cron_schedule.parse(schedule).next(last) > fixture.api.now


@pytest.mark.parametrize("name", ["../../../etc/passwd", "Europe", "/etc/passwd", "No/Such", "\x00", "a" * 5000])
def test_an_unknown_time_zone_is_reported(name):
    fixture = CronJobFixture(timeZone=name).sync(after=601)
    assert fixture.jobs == []
    assert "unknown time zone" in fixture.api.events[-1][2]


@pytest.mark.parametrize(
    "schedule", ["@every 999999999999999999h", "9" * 5000 + " * * * *", "@every " + "9" * 5000 + "s"]
)
def test_numbers_beyond_all_times_are_reported(schedule):
    assert CronJobFixture(schedule=schedule).sync(after=601).jobs == []


def test_a_deadline_of_any_number_of_seconds_is_kept():
    assert CronJobFixture(startingDeadlineSeconds=2**63 - 1).sync(after=601).jobs == ["nightly-29453770"]
