import math

from pykueue.dashboard.history import LONG_RING, History, Ring
from pykueue.kube.client import ObjectList


class Queues:
    """A client with one ClusterQueue."""

    def __init__(self):
        self.pending = 3

    async def list(self, _resource, _namespace="", _options=None):
        quota = {"name": "cpu", "nominalQuota": "4"}
        queue = {
            "metadata": {"name": "team"},
            "spec": {"resourceGroups": [{"flavors": [{"name": "default", "resources": [quota]}]}]},
            "status": {"pendingWorkloads": self.pending, "admittedWorkloads": 1},
        }
        return ObjectList(items=[queue], resource_version="1")


def test_a_ring_keeps_the_latest_values():
    ring = Ring(10, 3)
    for at in range(5):
        ring.add(at, {"depth": float(at)})
    assert (ring.times, list(ring.series["depth"])) == ([2, 3, 4], [2.0, 3.0, 4.0])


def test_a_series_that_begins_late_has_gaps_before():
    ring = Ring(10, 5)
    ring.add(1, {})
    ring.add(2, {"depth": 7.0})
    assert ring.as_json()["series"] == {"depth": [None, 7.0]}


def test_a_series_without_values_is_forgotten():
    ring = Ring(10, 2)
    for values in ({"depth": 1.0}, {}, {}):
        ring.add(0, values)
    assert ring.series == {}


async def test_the_mean_wait_is_that_of_the_admissions_between_two_samples():
    totals = {"team": (2.0, 10.0, 0.0)}
    history = History(Queues(), lambda: totals)
    await history.sample(10)
    totals = {"team": (4.0, 40.0, 3.0)}
    await history.sample(20)
    values = history.latest()["values"]
    assert (values["wait/team"], values["rate/team"], values["finished/team"]) == (15.0, 12.0, 18.0)


def test_after_a_long_pause_an_hour_is_still_an_hour():
    """Few samples were taken in the last hour: older ones must not fill the ring."""
    ring = Ring(10, 360)
    for at in range(0, 3000, 10):
        ring.add(at, {"depth": 1.0})
    ring.add(86400, {"depth": 2.0})
    assert (ring.times, list(ring.series["depth"])) == ([86400], [2.0])


def test_a_pause_is_a_gap():
    ring = Ring(10, 360)
    for at in (10, 20, 100):
        ring.add(at, {"depth": 1.0})
    assert (ring.times, ring.as_json()["series"]["depth"]) == ([10, 20, 30, 100], [1.0, 1.0, None, 1.0])


def test_a_clock_that_is_set_back_keeps_times_and_values_together():
    ring = Ring(10, 5)
    for at in (1000, 40, 50, 1010):
        ring.add(at, {"depth": float(at)})
    assert ring.times == [
        int(value) if not math.isnan(value) else ring.times[i] for i, value in enumerate(ring.series["depth"])
    ]


async def test_samples_are_there_after_a_restart(tmp_path):
    history = History(Queues(), dict, tmp_path / "history")
    await history.sample(10)
    history.save()
    restarted = History(Queues(), dict, tmp_path / "history")
    restarted.load()
    assert (restarted.short.times, list(restarted.short.series["pending/team"])) == ([10], [3.0])


def test_a_damaged_file_means_no_past(tmp_path):
    (tmp_path / "history").write_bytes(b"\xc1 not msgpack")
    history = History(Queues(), dict, tmp_path / "history")
    history.load()
    assert history.short.times == []


async def test_five_minutes_become_one_value_of_the_week():
    client = Queues()
    history = History(client, dict)
    for step in range(30):
        client.pending = step
        await history.sample(step * 10)
    assert math.isclose(history.long.series["pending/team"][0], 14.5)
    assert history.long.length == LONG_RING
