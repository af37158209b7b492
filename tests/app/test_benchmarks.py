"""The benchmarks run on this tree, at the smallest size."""

import asyncio
import importlib
import re
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_benchmark_of_jobs_finishes_its_jobs():
    command = [sys.executable, "-c", "import jobs; jobs.measure(2, 'simulated')"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=120, check=False)
    assert "2 jobs, simulated runtime" in done.stdout, done.stderr


def test_each_part_can_be_loaded_and_has_a_main():
    """As `make bench` loads them: the project's folder is not on the path."""
    code = "import run; print(all(callable(run.load(name, path).main) for name, path in run.parts().items()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "True\n", done.stderr


def test_the_benchmark_of_the_store_sends_changes_to_watchers():
    command = [sys.executable, "store.py", "--workloads", "20"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=120, check=False)
    assert "fan-out to 1,000 watchers" in done.stdout, done.stderr


def preemptions(*options):
    command = [sys.executable, "engine.py", "baseline", "--scale", "0.04", *options]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return int(re.search(r"([\d,]+) preemptions", done.stdout)[1].replace(",", ""))


def test_a_scheduler_with_the_pace_of_kueue_preempts_less():
    """Large Workloads arrive before small ones start."""
    assert 2 * preemptions("--writes-a-second", "50") < preemptions()


class LateWatch:
    """An API that answers writes, but whose watch shows nothing."""

    def __init__(self):
        self.patches = []

    async def patch(self, _resource, _name, _namespace, body, **_options):
        self.patches.append(body)
        return workload(3, "Admitted", "Finished")


def workload(version, *conditions):
    labels = {"kueue.x-k8s.io/performance-scheduler-class": "small"}
    return {
        "metadata": {"name": "a", "namespace": "a", "uid": "1", "labels": labels, "resourceVersion": str(version)},
        "status": {"conditions": [{"type": name, "status": "True"} for name in conditions]},
    }


async def test_a_job_ends_its_workload_once_although_the_watch_is_late(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    kueue_load, loads = importlib.import_module("kueue_load"), importlib.import_module("loads")
    client, load = LateWatch(), loads.LOADS["baseline"].scaled(0.001, 1)
    runner = kueue_load.Runner(client, load)
    runner.observe(workload(2, "Admitted"))
    async with asyncio.timeout(30):
        await runner.idle()
        runner.observe(workload(2, "Admitted"))
        await runner.idle()
    assert len(client.patches) == runner.recorder.finished == 1
