"""Every cell of every layout may have any text: the source is read, or refused with its place."""

import contextlib
import json

import pytest
from tests.simulate.test_sources import collector

from pykueue.simulate import planning
from pykueue.simulate.engine_driver.simulation import Simulation
from pykueue.simulate.sources import files, generator
from pykueue.simulate.sources.rows import SourceError

ODD = (
    "", " ", "0", "-1", "0.5", "nan", "inf", "-inf", "1e400", "1e18", "1e9", "99999999999999999999999", "abc", "1_000",
    "٣", "\x00", "1h", "-1h", "99999999h", "2026-02-30", "0001-01-01", "9999-12-31T23:59:59Z", "1Gi", "1e30Gi", "*", "/",
)  # fmt: skip
TABLES = {
    "own.csv": {
        "submit": "0", "run": "10", "queue": "team-a", "priority": "1", "pods": "1", "name": "a", "user": "u",
        "limit": "20", "startup": "1", "cpu": "1", "memory": "1Gi", "gpu": "1", "example.com/fpga": "1",
    },
    "helios.csv": {
        "job_id": "1", "user": "u", "vc": "team-a", "gpu_num": "1", "cpu_num": "4", "node_num": "1",
        "submit_time": "2020-05-01 00:00:00", "duration": "10",
    },
    "pai.csv": {
        "job_name": "a", "task_name": "b", "inst_num": "1", "status": "Terminated", "start_time": "1", "end_time": "9",
        "plan_cpu": "100", "plan_mem": "1", "plan_gpu": "100", "gpu_type": "team-a",
    },
    "openb.csv": {
        "name": "a", "cpu_milli": "100", "memory_mib": "10", "num_gpu": "1", "qos": "team-a", "creation_time": "1",
        "scheduled_time": "2", "deletion_time": "9",
    },
}  # fmt: skip
SWF = ["1", "0", "5", "100", "4", "-1", "-1", "4", "200", "-1", "1", "3", "4", "-1", "-1", "-1", "-1", "-1"]
SACCT = {
    "JobID": "1", "JobName": "a", "User": "u", "Partition": "team-a", "Submit": "2026-01-01T00:00:00", "ElapsedRaw": "9",
    "ReqTRES": "cpu=1,mem=1G,gres/gpu=1", "Timelimit": "1:00", "Priority": "1",
}  # fmt: skip


def texts():
    for name, cells in TABLES.items():
        for column in cells:
            for odd in ODD:
                row = {**cells, column: odd}
                yield name, f"{','.join(row)}\n{','.join(row.values())}\n"
    for column in range(len(SWF)):
        for odd in ODD:
            yield "a.swf", " ".join([*SWF[:column], odd, *SWF[column + 1 :]]) + "\n"
    for column in SACCT:
        for odd in (*ODD, "cpu=", "cpu=x,mem=1", "mem=1Q", "gres/gpu:a=1e99"):
            row = {**SACCT, column: odd}
            yield "sacct.txt", f"{'|'.join(row)}\n{'|'.join(row.values())}\n"
    attempt = {"start_time": "2017-10-07 01:00:00", "end_time": "2017-10-07 02:00:00", "detail": [{"gpus": ["a"]}]}
    job = {"vc": "team-a", "jobid": "a_1", "submitted_time": "2017-10-07 00:30:00", "attempts": [attempt], "user": "u"}
    for odd in (*ODD, None, 1, [], {}, [None], [{}], [[]]):
        for field in job:
            yield "cluster_job_log", json.dumps([{**job, field: odd}])
        for field in attempt:
            yield "cluster_job_log", json.dumps([{**job, "attempts": [{**attempt, field: odd}]}])


def test_an_odd_cell_is_read_or_refused(tmp_path):
    path_of = {name: tmp_path / name for name in (*TABLES, "a.swf", "sacct.txt", "cluster_job_log")}
    for name, text in texts():
        path_of[name].write_text(text, encoding="utf-8")
        jobs = collector(queue_map={"*": "team-a/team-a"})
        with contextlib.suppress(SourceError):
            files.add(path_of[name], jobs)
            Simulation(jobs.world, jobs.jobs).run()


@pytest.mark.parametrize("name", ["jobs", "rate", "sizes", "run", "priority", "pods", "queues", "resource", "cpu", "daily", "seed", "startup"])  # fmt: skip
def test_an_odd_setting_of_the_generator_is_read_or_refused(name):
    odd_runs = [
        f"{kind}({one},{two})" for kind in ("lognormal", "uniform", "pareto") for one in ODD for two in ("1", "0", "x")
    ]
    for odd in (*ODD, *(f"{one}*{two}" for one in ODD for two in ODD[:8]), *(odd_runs if name == "run" else ())):
        if not odd.split() or " " in odd or (name == "jobs" and odd == "1e9"):
            continue
        jobs = collector()
        with contextlib.suppress(SourceError):
            rows = generator.read(f"jobs=3 {name}={odd}", ["team-a/team-a"])
            jobs.add_rows((row for row, _ in zip(rows, range(5), strict=False)), "--generate")


def test_reports_of_jobs_that_never_start_name_remedies(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("submit,run,gpu\n0,10,4000\n")
    jobs = collector()
    files.add(path, jobs)
    plan = planning.SimulationPlan(objects=[*jobs.world.all("ResourceFlavor"), *jobs.world.all("ClusterQueue"), *jobs.world.all("LocalQueue")], jobs=jobs.jobs)  # fmt: skip
    result = planning.run(plan)
    assert any("raise the nominal quota" in remedy for remedy in result.figures["never_started"][0]["remedies"])
    assert "Waits: no job started" in repr(result)
