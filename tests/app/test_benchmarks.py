"""The benchmarks run on this tree, at the smallest size."""

import re
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_benchmark_of_jobs_finishes_its_jobs():
    command = [sys.executable, "-c", "import jobs; jobs.measure(2, 'simulated')"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=120, check=False)
    assert "2 jobs, simulated runtime" in done.stdout, done.stderr


def preemptions(*options):
    command = [sys.executable, "engine.py", "baseline", "--scale", "0.04", *options]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return int(re.search(r"([\d,]+) preemptions", done.stdout)[1].replace(",", ""))


def test_a_scheduler_with_the_pace_of_kueue_preempts_less():
    """What docs/performance.md says about evictions: large Workloads arrive before small start."""
    assert 5 * preemptions("--writes-a-second", "50") < preemptions()
