"""The figures of a run, and the formats of the report."""

import json
import multiprocessing
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.simulate.worlds import Jobs, World, cluster_queue, flavor, local_queue

from pykueue.api.times import SECOND_NS
from pykueue.cli.main import cli
from pykueue.simulate import notebook, planning, what_if
from pykueue.simulate.report import html_page, text
from pykueue.simulate.report.timeline import MOST_INTERVALS, Timeline

QUEUES = [
    flavor(),
    *(
        cluster_queue(
            name, 4, cohortName="all", preemption={"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
        )
        for name in ("team-a", "team-b")
    ),
    local_queue("team-a"),
    local_queue("team-b"),
]


def plan(*rows):
    jobs = Jobs(World.from_objects(QUEUES))
    for name, gpus, options in rows:
        jobs.add(name, gpus, **options)
    return planning.SimulationPlan(objects=QUEUES, jobs=jobs.table)


def borrowed_and_reclaimed():
    """team-a borrows all of team-b's quota for 100 s, and must give it back after 50 s."""
    return plan(
        ("large", 8, {"run": 100}), ("owner", 4, {"at": 50, "run": 50, "namespace": "team-b"}), ("huge", 9, {"run": 1})
    )


def test_waits_usage_borrowing_and_lost_work_are_counted():
    figures = planning.run(borrowed_and_reclaimed()).figures
    assert figures["endings"] | {"finished": 2, "pending": 1} == figures["endings"]
    waits = {row["name"]: (row["jobs"], row["max_seconds"]) for row in figures["waits_by_queue"]}
    assert waits == {"team-a": (1, 0.0), "team-b": (1, 1.0)}
    assert figures["preemptions"]["preemptions"] == 1
    assert figures["preemptions"]["lost_resource_hours"] == round(8 * 50 / 3600, 3)
    usage = {row["cluster_queue"]: row for row in figures["usage"]}
    assert usage["team-a"]["borrowed_hours"] == round(4 * 151 / 3600, 3)
    assert usage["team-b"]["used_hours"] == round(4 * 50 / 3600, 3)


def test_a_job_that_never_starts_is_explained():
    figures = planning.run(borrowed_and_reclaimed()).figures
    assert [row["job"] for row in figures["never_started"]] == ["team-a/huge"]
    assert "9" in figures["never_started"][0]["why"]


def test_the_longest_waits_are_explained():
    figures = planning.run(
        plan(("first", 8, {"run": 500}), ("second", 8, {"run": 5}), ("third", 8, {"run": 5}))
    ).figures
    worst = figures["worst_waits"][0]
    assert (worst["job"], worst["wait_seconds"]) == ("team-a/third", 505.0)
    assert "2 jobs were pending" in worst["why"] or "1 job was pending" in worst["why"]


def test_the_same_run_gives_the_same_report():
    first, second = (planning.run(borrowed_and_reclaimed()) for _ in range(2))
    assert json.dumps(first.figures) == json.dumps(second.figures)
    assert html_page.page(first.figures, first.outcomes) == html_page.page(second.figures, second.outcomes)


def test_the_page_needs_nothing_from_elsewhere():
    result = planning.run(borrowed_and_reclaimed())
    page = html_page.page(result.figures, result.outcomes)
    assert not re.search(r"(src|href)=|@import|url\(|fetch\(", page)
    assert "{{" not in page


def test_names_in_the_page_are_text():
    odd = plan(("<script>alert(1)</script>", 1, {}))
    result = planning.run(odd)
    assert "<script>alert" not in html_page.page(result.figures, result.outcomes)


def test_a_timeline_keeps_averages_while_its_intervals_double():
    timeline = Timeline()
    timeline.add(("used",), 6, 0)
    timeline.add(("used",), -4, 1000 * SECOND_NS)
    timeline.finish(4000 * SECOND_NS)
    count = timeline.count(4000 * SECOND_NS)
    assert count <= MOST_INTERVALS
    assert timeline.total(("used",)) == (6 * 1000 + 2 * 3000) * SECOND_NS
    levels = timeline.averages(("used",), count)
    assert (levels[0], levels[count - 2]) == (6.0, 2.0)


def test_durations_are_short():
    assert [text.duration(seconds) for seconds in (0, 59, 61, 3600, 90061)] == ["0s", "59s", "1m 1s", "1h", "1d 1h"]


QUEUE_FILE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpu}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-a}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: gpu, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: team-a}
spec: {clusterQueue: team-a}
"""
GENERATED = "jobs=60 rate=60/h sizes=1,2,4 run=exponential(5m) seed=3"


def command(tmp_path, *words):
    (tmp_path / "queues.yaml").write_text(QUEUE_FILE)
    split = 2 if words[1] == "diff" else 1
    return CliRunner().invoke(cli, [*words[:split], "-f", str(tmp_path / "queues.yaml"), *words[split:]])


def simulate(tmp_path, *words):
    (tmp_path / "queues.yaml").write_text(QUEUE_FILE)
    result = CliRunner().invoke(cli, ["simulate", "-f", str(tmp_path / "queues.yaml"), *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_prints_the_report_and_writes_files(tmp_path):
    html, table = tmp_path / "report.html", tmp_path / "jobs.csv"
    output = simulate(tmp_path, "--generate", GENERATED, "--html", str(html), "--csv", str(table))
    assert output.startswith("60 jobs in ")
    assert "Waits by queue" in output
    assert html.read_text().startswith("<!doctype html>")
    assert len(table.read_text().splitlines()) == 61


def test_the_progress_bar_replaces_its_line_on_a_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(planning, "_PROGRESS_STEPS", 1)
    (tmp_path / "queues.yaml").write_text(QUEUE_FILE)
    cli(["simulate", "-f", str(tmp_path / "queues.yaml"), "--generate", GENERATED], standalone_mode=False)
    lines = capsys.readouterr().err.split("\r")
    assert re.fullmatch(r"\[[#.]{30}\] \d+/60 jobs  \d+/s  \d+ s left\x1b\[K", lines[1])
    assert lines[-1] == "\x1b[K"


def test_json_has_all_figures(tmp_path):
    figures = json.loads(simulate(tmp_path, "--generate", GENERATED, "-o", "json"))
    assert {"waits", "usage", "fairness", "preemptions", "worst_waits", "timeline"} <= figures.keys()


def test_more_quota_shortens_the_waits(tmp_path):
    def mean(*words):
        return json.loads(simulate(tmp_path, "--generate", GENERATED, "-o", "json", *words))["waits"]["mean_seconds"]

    assert mean("--set", "clusterqueue/team-a.nominalQuota[gpu]=8") < mean()


def test_a_sweep_has_a_row_for_each_value(tmp_path):
    words = ("--generate", GENERATED, "--set", "clusterqueue/team-a.nominalQuota[gpu]=4..8:2", "--processes", "1")
    output = simulate(tmp_path, *words)
    assert [line.split()[0] for line in output.splitlines()] == [
        "VARIANT",
        "base",
        *(f"clusterqueue/team-a.nominalQuota[gpu]={gpus}" for gpus in (4, 6, 8)),
    ]


def test_diff_says_who_waits_less(tmp_path):
    change = "clusterqueue/team-a.nominalQuota[nvidia.com/gpu]=16"
    words = ("--generate", GENERATED, "--set", change, "--processes", "1", "-o", "json")
    result = command(tmp_path, "simulate", "diff", *words)
    entry = json.loads(result.output)["variants"][0]
    assert entry["waits_shorter"] > 10
    assert entry["waits_longer"] == 0
    assert entry["hours"]["used_before"] == entry["hours"]["used_after"]


def test_diff_counts_jobs_that_never_start(tmp_path):
    """They have no wait, which is not a wait of 0."""
    change = "clusterqueue/team-a.nominalQuota[nvidia.com/gpu]=0"
    words = ("--generate", GENERATED, "--set", change, "--processes", "1")
    lines = command(tmp_path, "simulate", "diff", *words).output.splitlines()
    assert "NEVER START" in lines[0]
    entry = json.loads(command(tmp_path, "simulate", "diff", *words, "-o", "json").output)["variants"][0]
    never = f"{entry['never_starts_now']:,}"
    assert entry["never_starts_now"] > 10
    assert lines[2].split()[1:5] == ["-", "-", "-", never]
    queue = next(words for line in lines if (words := line.split())[:1] == ["team-a"])
    assert (queue.count("-"), queue[-2:]) == (2, ["0", never])


def test_bad_settings_are_refused_with_a_remedy(tmp_path):
    for setting, message in (
        ("nonsense", "Write KIND/NAME.FIELD=VALUE"),
        ("clusterqueue/team-z.nominalQuota[gpu]=1", "There are: team-a."),
        ("clusterqueue/team-a.nominalQuota[tpu]=1", "Write one of [gpu/nvidia.com/gpu]."),
        ("clusterqueue/team-a.nominalQuota[gpu]=9..2", "an empty or too long range"),
    ):
        result = command(tmp_path, "simulate", "--generate", GENERATED, "--set", setting)
        assert result.exit_code == 1, result.output
        assert message in result.output


def test_a_notebook_shows_a_result_as_its_report():
    example = Path(__file__).parents[2] / "examples" / "planning"
    result = notebook.run(notebook.plan(example / "queues.yaml", jobs=example / "jobs.csv"))
    assert repr(result).startswith("400 jobs in 2d 20h: 400 finished\nWaits: mean 17m 29s")


def several_variants():
    settings = what_if.parse("clusterqueue/team-a.nominalQuota[gpu]=1..6:1")
    return [what_if.Variant(name=setting.text, settings=(setting,)) for setting in settings]


def test_ctrl_c_leaves_the_processes_of_variants_to_their_parent():
    results = planning.run_all(borrowed_and_reclaimed(), several_variants(), processes=2)
    names = [next(results).name]
    for process in multiprocessing.active_children():
        os.kill(process.pid, signal.SIGINT)
    names += [result.name for result in results]
    assert names == [variant.name for variant in several_variants()]


def test_an_interrupted_comparison_ends_its_processes():
    results = planning.run_all(borrowed_and_reclaimed(), several_variants(), processes=2)
    next(results)
    processes = multiprocessing.active_children()
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert processes
    for process in processes:
        process.join(timeout=30)
        assert process.exitcode is not None
