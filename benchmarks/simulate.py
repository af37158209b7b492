"""A trace of the Helios kind through the whole command: report, table of jobs and page.

    python benchmarks/simulate.py [JOBS]

Twenty virtual clusters share 640 GPUs in a cohort, at some 85 % load: jobs of 1 to 32 GPUs, most of
them short, some of days; a day has busy hours. The command runs twice, and its outputs are compared
byte by byte.
"""

import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOBS = 100_000
SMALL = {"JOBS": 2_000}
CLUSTERS = 20
GPUS = 32
SIZES = ((1, 56), (2, 13), (4, 11), (8, 15), (16, 4), (32, 1))
LOAD = 0.85
_QUEUE = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  cohortName: helios
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority}}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{{name: v100, resources: [{{name: nvidia.com/gpu, nominalQuota: {gpus}}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}, namespace: {name}}}
spec: {{clusterQueue: {name}}}
"""


def queues() -> str:
    flavor = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: v100}\n"
    return flavor + "".join(_QUEUE.format(name=f"vc{number}", gpus=GPUS) for number in range(CLUSTERS))


def trace(jobs: int, seed: int = 1) -> str:
    """The columns of the Helios traces."""
    rng = random.Random(seed)
    sizes = rng.choices([size for size, _ in SIZES], [weight for _, weight in SIZES], k=jobs)
    runs = [max(1, round(min(rng.lognormvariate(math.log(300), 2.0), 7 * 86400))) for _ in range(jobs)]
    span = sum(size * run for size, run in zip(sizes, runs, strict=True)) / (CLUSTERS * GPUS * LOAD)
    lines = ["job_id,user,vc,gpu_num,cpu_num,state,submit_time,duration"]
    at, step = 0.0, span / jobs
    for number, (size, run) in enumerate(zip(sizes, runs, strict=True)):
        at += rng.expovariate(1 / step) / (1 + 0.6 * math.sin(at / 86400 * 2 * math.pi))
        submit = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_590_000_000 + at))
        user = rng.randrange(200)
        lines.append(f"{number},u{user},vc{user % CLUSTERS},{size},{size * 4},COMPLETED,{submit},{run}")
    return "\n".join(lines) + "\n"


def run(folder: Path, out: Path) -> tuple[float, float]:
    """CPU seconds and the largest memory in MB."""
    out.mkdir()
    command = [sys.executable, "-m", "pykueue", "simulate", "-f", "queues.yaml", "--jobs", "trace.csv"]
    options = ["--html", str(out / "report.html"), "--csv", str(out / "jobs.csv")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (out / "report.txt").open("w") as report:
        subprocess.run([*command, *options], cwd=folder, stdout=report, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        (folder / "queues.yaml").write_text(queues())
        (folder / "trace.csv").write_text(trace(JOBS))
        started = time.monotonic()
        seconds, megabytes = run(folder, folder / "first")
        wall = time.monotonic() - started
        print((folder / "first" / "report.txt").read_text().split("\n\n")[0])
        print(f"{JOBS:,} jobs: {wall:.1f} s, {seconds:.1f} s of CPU, {megabytes:.0f} MB")
        run(folder, folder / "second")
        names = sorted(path.name for path in (folder / "first").iterdir())
        is_same = all(
            (folder / "first" / name).read_bytes() == (folder / "second" / name).read_bytes() for name in names
        )
        print(f"a second run is {'byte-equal' if is_same else 'DIFFERENT'}: {', '.join(names)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        JOBS = int(sys.argv[1])
    main()
