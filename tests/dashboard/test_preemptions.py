"""The preemptions of a cluster, also those from before the page was opened."""

import msgspec
import pytest
from tests.dashboard.test_page_stream import Pages

from pykueue.api import resources
from pykueue.dashboard.feed import PREEMPTIONS, Feed

PREEMPTED = (
    "Preempted to accommodate a workload (UID: u2, JobUID: j2) due to reclamation within the cohort; preemptor path: /a"
)
OF_CONDITION = {
    "namespace": "default",
    "name": "job-one",
    "job": "one",
    "at": 1000,
    "by": "u2",
    "reason": "InCohortReclamation",
    "why": "reclamation within the cohort",
    "ran": None,
    "requests": {"cpu": 2.0},
    "clusterQueue": "team",
}
OF_EVENT = OF_CONDITION | {"job": "", "at": 1001, "reason": "", "ran": 240, "requests": {}, "clusterQueue": ""}


async def create_event(api, name, reason, at, note):
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": at,
        "action": reason,
        "reason": reason,
        "type": "Normal",
        "note": note,
        "reportingController": "test",
        "reportingInstance": "test",
        "regarding": {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "namespace": "default",
            "name": "job-one",
        },
    }
    await api.client().create(resources.EVENT, event, "default")


async def test_events_tell_how_much_work_an_earlier_preemption_cost(api):
    """The workload was admitted twice before it was preempted, and once after that."""
    for hour, minute in ((1, 0), (1, 30), (2, 30)):
        at = f"2026-01-01T0{hour}:{minute:02d}:00.000000Z"
        await create_event(api, f"admitted-{hour}-{minute}", "Admitted", at, "Admitted by ClusterQueue team")
    await create_event(api, "preempted", "Preempted", "2026-01-01T02:00:00.000000Z", PREEMPTED)
    async with Pages(api) as pages:
        page = await pages.open(api.access.token)
        await page.until(lambda: page.tables[PREEMPTIONS])
        (row,) = page.tables[PREEMPTIONS].values()
        assert (row["by"], row["why"], row["ran"]) == ("u2", "reclamation within the cohort", 1800)


@pytest.mark.parametrize("rows", [(OF_CONDITION, OF_EVENT), (OF_EVENT, OF_CONDITION)])
async def test_the_event_and_the_condition_of_a_preemption_are_one_row(api, rows):
    feed = Feed(api.client())
    for row in rows:
        feed.add_preemption(row)
    (encoded,) = feed.tables[PREEMPTIONS].rows.values()
    row = msgspec.json.decode(encoded)
    assert {name: row[name] for name in ("job", "reason", "ran", "requests")} == {
        "job": "one",
        "reason": "InCohortReclamation",
        "ran": 240,
        "requests": {"cpu": 2.0},
    }


@pytest.mark.parametrize("second", [{"at": 1060}, {"at": 1001, "by": "u3"}])
async def test_two_preemptions_of_one_workload_are_two_rows(api, second):
    feed = Feed(api.client())
    feed.add_preemption(OF_CONDITION)
    feed.add_preemption(OF_CONDITION | second)
    assert len(feed.tables[PREEMPTIONS].rows) == 2
