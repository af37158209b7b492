import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from tests.cli import demo_objects

from pykueue.api import resources
from pykueue.cli import top
from pykueue.cli.top import _LiveBoard
from pykueue.dashboard import board as boards
from pykueue.dashboard import drawing


def board_of(*workloads, queues=()):
    board = boards.Board()
    board.replace("workloads", workloads)
    board.replace("clusterqueues", queues)
    return board


def text_of(board, options=boards.BoardOptions()):  # noqa: B008 - options are values
    console = Console(width=options.width, record=True, file=io.StringIO())
    console.print(drawing.draw(board, options, now=0))
    return console.export_text()


RUNNING = demo_objects.workload("train", "QuotaReserved", "Admitted", "PodsReady")
PENDING = demo_objects.workload("sweep")
DONE = demo_objects.workload("eval", "QuotaReserved", "Admitted", "Finished")


@pytest.mark.parametrize(
    ("states", "names"),
    [
        ("all", ["sweep", "train", "eval"]),
        ("pending", ["sweep"]),
        ("running", ["train"]),
        ("finished", ["eval"]),
        ("active", ["sweep", "train"]),
    ],
)
def test_workloads_are_selected_by_state(states, names):
    board = board_of(RUNNING, PENDING, DONE)
    assert [boards.job_name(row) for row in board.selected(boards.BoardOptions(states=states))] == names


def test_workloads_are_selected_by_words():
    board = board_of(RUNNING, PENDING, DONE)
    assert [boards.job_name(row) for row in board.selected(boards.BoardOptions(text="QUEUE trai"))] == ["train"]


def test_a_bar_says_what_is_borrowed():
    queues = [
        demo_objects.cluster_queue("small", nominal="4", used="6"),
        demo_objects.cluster_queue("large", nominal="8", used="0"),
    ]
    assert "6 of 12, 2 borrowed from team" in text_of(board_of(queues=queues))


@pytest.mark.parametrize("width", [80, 110, 160])
def test_a_long_reason_leaves_room_for_the_other_columns(width):
    workload = demo_objects.workload("train-with-a-long-name")
    reason = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, " * 3
    pending = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": reason}
    workload["status"] = {"conditions": [pending]}
    lines = text_of(board_of(workload), boards.BoardOptions(width=width)).splitlines()
    (line,) = (line for line in lines if "train-with-a-long-name" in line)
    assert "○ pending" in line
    assert boards.requests_text(board_of(workload).selected(boards.BoardOptions())[0][boards.FIELD["requests"]]) in line
    assert max(map(len, lines)) <= width


def test_a_message_is_no_command_of_the_terminal():
    workload = demo_objects.workload("train")
    pending = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "\x1b[2Jgone\nforged"}
    workload["status"] = {"conditions": [pending]}
    text = text_of(board_of(workload))
    assert "\\x1b[2Jgone\\nforged" in text
    assert "\x1b[2J" not in text


def test_the_busiest_queues_are_shown_if_not_all_fit():
    queues = [demo_objects.cluster_queue(f"queue-{number}", nominal="4", used="0") for number in range(5)]
    queues[3]["status"]["pendingWorkloads"] = 7
    text = text_of(board_of(queues=queues), boards.BoardOptions(most_bars=2))
    assert ("queue-3" in text, "queue-4" in text, "3 more" in text) == (True, False, True)


def test_an_arrow_scrolls_and_does_not_quit():
    live = _LiveBoard(None, "", boards.BoardOptions())
    live._board = board_of(*(demo_objects.workload(f"job-{number}") for number in range(9)))
    for key in top._KEY.findall("\x1b[B\x1b[C"):
        live._press(key)
    assert (live._selection.first, live._stopping.is_set()) == (5, False)
    live._press("\x1b")
    assert live._stopping.is_set()


def test_rows_that_do_not_fit_are_counted():
    board = board_of(*(demo_objects.workload(f"job-{number}") for number in range(9)))
    assert "6 more" in text_of(board, boards.BoardOptions(most=3))


def test_a_deleted_workload_leaves_the_board():
    board = board_of(RUNNING, PENDING)
    board.change("workloads", "DELETED", RUNNING)
    assert board.counts()["running"] == 0


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ("p", {"states": "pending"}),
        ("pa", {"states": "all"}),
        ("s", {"sort": "age"}),
        ("/gpu\n", {"text": "gpu"}),
        ("/gpx\x7fu\n", {"text": "gpu"}),
        ("/pr\nr", {"text": "pr", "states": "running"}),
    ],
)
def test_keys_change_what_is_shown(keys, options):
    shown = boards.BoardOptions()
    live = _LiveBoard(None, "", shown)
    for key in keys:
        live._press(key)
    assert live._selection == replace(shown, **options)


def test_once_prints_the_board(cluster):
    cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": "team"}, "spec": {"namespaceSelector": {}}})
    done = cluster.pykueue("top", "--once")
    assert (done.exit_code, "no workloads" in done.output) == (0, True), done.output


def test_the_board_as_json(cluster):
    done = cluster.pykueue("top", "-o", "json")
    assert json.loads(done.output)["workloads"] == []


def test_quota_as_json_has_names(cluster):
    quota = {"name": "cpu", "nominalQuota": "8", "borrowingLimit": "2"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "spot", "resources": [quota]}]}
    spec = {"namespaceSelector": {}, "cohortName": "all", "resourceGroups": [group]}
    cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": "named-quota"}, "spec": spec})
    queues = json.loads(cluster.pykueue("top", "-o", "json").output)["clusterQueues"]
    (entry,) = next(queue["quota"] for queue in queues if queue["name"] == "named-quota")
    assert (entry["flavor"], entry["resource"], entry["nominal"]) == ("spot", "cpu", 8)
    assert (entry["borrowingLimit"], entry["lendingLimit"], entry["reserved"], entry["used"]) == (2, None, 0, 0)
