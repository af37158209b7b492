"""Translation of Workloads to engine values, which happens at every event of a Workload."""

import time

from pykueue.translate import requests, workload

COUNT = 20_000


def workload_object(number: int) -> dict[str, object]:
    container = {
        "name": "main",
        "resources": {"requests": {"cpu": f"{number % 7 + 1}", "memory": "2Gi", "nvidia.com/gpu": "1"}},
    }
    return {
        "metadata": {
            "name": f"job-{number}",
            "namespace": "team",
            "uid": f"uid-{number}",
            "creationTimestamp": "2026-01-15T12:00:00Z",
            "generation": 1,
        },
        "spec": {
            "queueName": "main",
            "priority": number % 3,
            "podSets": [{"name": "main", "count": 4, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {},
    }


def main() -> None:
    objects = [workload_object(number) for number in range(COUNT)]
    options = workload.WorkloadOptions()
    start = time.process_time()
    for obj in objects:
        adjusted = requests.adjusted(obj, runtime_classes={}, limit_ranges=())
        workload.workload(adjusted, options)
    seconds = time.process_time() - start
    print(f"   {COUNT / seconds:,.0f} workloads a second translated ({seconds / COUNT * 1e6:.0f} µs each, one core)")
