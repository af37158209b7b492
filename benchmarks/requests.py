"""Translation of Workloads to engine values, which happens at every event of a Workload."""

import time

from pykueue.translate import devices, workload

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
    translator = workload.WorkloadTranslator(workload.WorkloadOptions())
    start = time.process_time()
    for obj in objects:
        translator.workload(obj, runtime_classes={}, count_devices=lambda _obj: devices.NO_DEVICES)
    seconds = time.process_time() - start
    print(f"   {COUNT / seconds:,.0f} workloads a second translated ({seconds / COUNT * 1e6:.0f} µs each, one core)")
