"""Jobs in many queues on the API server of a kubeconfig, where `pykueue controller` runs: rate, and API calls per admission.

python benchmarks/cluster_jobs.py KUBECONFIG [--jobs 5000] [--queues 30]
"""

import argparse
import asyncio
import re
import time
from pathlib import Path

from pykueue.controllers import kinds
from pykueue.kube import access
from pykueue.kube.client import WriteOptions
from pykueue.kube.http_client import HttpClient
from pykueue.translate.jobs import registry

NAMESPACE = "benchmark"
JOB = registry.FRAMEWORKS["batch/job"].resource
OURS = (("workloads", "POST"), ("workloads", "PATCH"), ("workloads", "GET"), ("jobs", "PATCH"), ("events", "POST"))


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--queues", type=int, default=30)
    options = parser.parse_args()
    client = HttpClient(await access.from_kubeconfig(options.kubeconfig))
    try:
        await _run(client, options.jobs, options.queues)
    finally:
        await client.close()


async def _run(client: HttpClient, jobs: int, queues: int) -> None:
    await _make_queues(client, queues, jobs)
    before, start = await _calls(client), time.monotonic()
    watching = asyncio.create_task(_until_admitted(client, jobs))
    turn = asyncio.Semaphore(32)

    async def submit(number: int) -> None:
        async with turn:
            await client.create(JOB, _job(number, queues), NAMESPACE)

    await asyncio.gather(*(submit(number) for number in range(jobs)))
    created = time.monotonic() - start
    await watching
    admitted = time.monotonic() - start
    await asyncio.sleep(5)
    after = await _calls(client)
    print(f"{jobs} jobs in {queues} queues: created in {created:.1f} s, all admitted after {admitted:.1f} s")
    print(f"{jobs / admitted:.0f} admissions/s from the first creation to the last admission")
    made = {key: after.get(key, 0) - before.get(key, 0) for key in OURS}
    made["jobs", "POST"] = 0
    for (resource, verb), count in made.items():
        if count:
            print(f"  {verb} {resource}: {count / jobs:.2f} for each admission")


async def _make_queues(client: HttpClient, queues: int, jobs: int) -> None:
    await _ensure(client, kinds.NAMESPACE, {"metadata": {"name": NAMESPACE}})
    await _ensure(client, kinds.RESOURCE_FLAVOR, {"metadata": {"name": "benchmark"}})
    for number in range(queues):
        name = f"benchmark-{number}"
        quota = [{"name": "cpu", "nominalQuota": str(jobs)}]
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "benchmark", "resources": quota}]}]
        spec = {"namespaceSelector": {}, "resourceGroups": groups}
        await _ensure(client, kinds.CLUSTER_QUEUE, {"metadata": {"name": name}, "spec": spec})
        metadata = {"name": name, "namespace": NAMESPACE}
        await _ensure(client, kinds.LOCAL_QUEUE, {"metadata": metadata, "spec": {"clusterQueue": name}})


async def _ensure(client: HttpClient, resource: kinds.Resource, obj: dict) -> None:
    from pykueue.api.errors import ApiError

    try:
        await client.create(resource, obj, options=WriteOptions())
    except ApiError as error:
        if error.code != 409:
            raise


def _job(number: int, queues: int) -> dict:
    labels = {"kueue.x-k8s.io/queue-name": f"benchmark-{number % queues}"}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"generateName": "job-", "labels": labels}, "spec": {"template": template}}


async def _until_admitted(client: HttpClient, jobs: int) -> None:
    """Watches, so that waiting costs the API server nothing."""
    version = (await client.list(kinds.WORKLOAD, NAMESPACE)).resource_version
    admitted: set[str] = set()
    while True:
        async for event in client.watch(kinds.WORKLOAD, NAMESPACE, resource_version=version):
            version = event.object["metadata"]["resourceVersion"]
            conditions = (event.object.get("status") or {}).get("conditions") or ()
            if any(each["type"] == "Admitted" and each["status"] == "True" for each in conditions):
                admitted.add(event.object["metadata"]["name"])
                if len(admitted) == jobs:
                    return


async def _calls(client: HttpClient) -> dict[tuple[str, str], int]:
    """Requests that the API server has counted, by resource and verb."""
    text = await client.raw("GET", "/metrics")
    found: dict[tuple[str, str], int] = {}
    for line in str(text).splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            key = (labels.get("resource", ""), labels.get("verb", ""))
            found[key] = found.get(key, 0) + int(float(line.rpartition(" ")[2]))
    return found


if __name__ == "__main__":
    asyncio.run(main())
