"""What a Workload at rest costs: the memory of the server with many pending Workloads.

python benchmarks/memory.py [COUNT]
"""

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import kueue_load
import loads

from pykueue.api import resources
from pykueue.kube import access
from pykueue.kube.http_client import HttpClient

COUNT = 20_000
SMALL = {"COUNT": 2_000}
CLIENTS = 16
REST_SECONDS = 4.0


async def fill(kubeconfig: Path, count: int) -> None:
    """Create Workloads of three classes that no quota admits."""
    client = HttpClient(await access.from_kubeconfig(kubeconfig))
    load = loads.BASELINE
    await client.create(resources.RESOURCE_FLAVOR, loads.flavor(load))
    queue = loads.cluster_queue(load, "queue", "cohort")
    for quota in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]:
        quota |= {"nominalQuota": "0", "borrowingLimit": "0"}
    await client.create(resources.CLUSTER_QUEUE, queue)
    await client.create(resources.NAMESPACE, loads.namespace("queue"))
    await client.create(resources.LOCAL_QUEUE, loads.local_queue("queue"), "queue")
    numbers = iter(range(count))

    async def create() -> None:
        for number in numbers:
            workload_class = load.classes[number % len(load.classes)]
            await client.create(resources.WORKLOAD, loads.workload(workload_class, 0, number, "queue"), "queue")

    await asyncio.gather(*(create() for _ in range(CLIENTS)))
    await asyncio.sleep(REST_SECONDS)
    await client.close()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdecimal() else COUNT
    with tempfile.TemporaryDirectory() as directory, kueue_load.embedded(Path(directory)) as (kubeconfig, processes):
        (process,) = processes
        before = process.figures()["rss_mb"]
        asyncio.run(fill(kubeconfig, count))
        after = process.figures()["rss_mb"]
    kilobytes = (after - before) * 1024 / count
    print(f"   {count} pending Workloads: {before} MB before, {after} MB after, {kilobytes:.1f} KB for each")


if __name__ == "__main__":
    main()
