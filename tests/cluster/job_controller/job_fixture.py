"""One Job on a fake API, with the memory of its controller."""

import copy

from tests.cluster.fake_api import Crash, FakeApi

from pykueue.cluster.job_controller import sync


def job(**spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template} | spec,
    }


class JobFixture:
    def __init__(self, **spec):
        self.api = FakeApi()
        self.api.add(job(**spec))
        self.memory = sync.Memory()
        self.done = None

    @property
    def job(self):
        return self.api.get("Job", "train")

    @property
    def status(self):
        return self.job.get("status", {})

    @property
    def pods(self):
        return self.api.of("Pod")

    @property
    def active(self):
        return [
            pod
            for pod in self.pods
            if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
        ]

    def sync(self, crash_after=None):
        steps = sync.sync(copy.deepcopy(self.job), self.pods, self.memory, self.api.now)
        try:
            self.done = self.api.run(steps, crash_after=crash_after)
        except Crash:
            self.memory = sync.Memory()
        return self

    def end(self, exit_code=0, which=0):
        self.api.end_pod(self.active[which], exit_code)
        return self

    def end_index(self, index, exit_code=0):
        key = "batch.kubernetes.io/job-completion-index"
        (pod,) = [pod for pod in self.active if pod["metadata"]["annotations"][key] == str(index)]
        self.api.end_pod(pod, exit_code)
        return self

    def later(self, seconds):
        self.api.pass_time(seconds)
        return self

    def condition(self, type_):
        for condition in self.status.get("conditions", []):
            if condition["type"] == type_ and condition["status"] == "True":
                return condition["reason"], condition["message"]
        return None
