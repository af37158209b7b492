"""The benchmarks run on this tree, at the smallest size."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_benchmark_of_jobs_finishes_its_jobs():
    command = [sys.executable, "-c", "import jobs; jobs.measure(2, 'simulated')"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=120, check=False)
    assert "2 jobs, simulated runtime" in done.stdout, done.stderr
