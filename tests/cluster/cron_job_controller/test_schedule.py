from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from pykueue.cluster.cron_job_controller import schedule


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:30", "2026-01-01T00:01:00"),
        ("*/15 * * * *", "2026-01-01T00:15:00", "2026-01-01T00:30:00"),
        ("0 9-17/4 * * mon-fri", "2026-01-02T17:00:00", "2026-01-05T09:00:00"),
        ("0 0 1 jan *", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("0 0 13 * 5", "2026-02-01T00:00:00", "2026-02-06T00:00:00"),
        ("0 0 * * 7", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("@daily", "2026-01-01T12:00:00", "2026-01-02T00:00:00"),
        ("@every 1h30m", "2026-01-01T12:00:00", "2026-01-01T13:30:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
    ],
)
def test_next_time(text, after, expected):
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC)
    assert schedule.parse(text).next(moment) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_a_date_that_never_comes_has_no_next_time():
    assert schedule.parse("0 0 30 2 *").next(datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_a_local_time_left_out_by_summer_time_is_skipped():
    rome = ZoneInfo("Europe/Rome")
    following = schedule.parse("30 2 * * *").next(datetime(2026, 3, 28, 12, tzinfo=rome))
    assert following == datetime(2026, 3, 30, 2, 30, tzinfo=rome)


@pytest.mark.parametrize("text", ["", "* * * *", "60 * * * *", "a * * * *", "5-1 * * * *", "*/0 * * * *", "@every x"])
def test_what_is_no_schedule_is_refused(text):
    with pytest.raises(schedule.ScheduleError):
        schedule.parse(text)
