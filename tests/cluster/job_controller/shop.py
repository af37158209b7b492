"""One Job in a small world, with its controller's memory."""

import copy

from tests.cluster.world import Crash, World

from pykueue.cluster.job_controller import sync


def job(**spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template} | spec,
    }


class Shop:
    def __init__(self, **spec):
        self.world = World()
        self.world.add(job(**spec))
        self.memory = sync.Memory()
        self.done = None

    @property
    def job(self):
        return self.world.get("Job", "train")

    @property
    def status(self):
        return self.job.get("status", {})

    @property
    def pods(self):
        return self.world.of("Pod")

    @property
    def active(self):
        return [
            pod
            for pod in self.pods
            if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
        ]

    def sync(self, crash_after=None):

        steps = sync.sync(copy.deepcopy(self.job), self.pods, self.memory, self.world.now)
        try:
            self.done = self.world.run(steps, crash_after=crash_after)
        except Crash:
            self.memory = sync.Memory()
        return self

    def end(self, exit_code=0, which=0):
        self.world.end_pod(self.active[which], exit_code)
        return self

    def end_index(self, index, exit_code=0):
        key = "batch.kubernetes.io/job-completion-index"
        (pod,) = [pod for pod in self.active if pod["metadata"]["annotations"][key] == str(index)]
        self.world.end_pod(pod, exit_code)
        return self

    def later(self, seconds):
        self.world.pass_time(seconds)
        return self

    def condition(self, type_):
        for condition in self.status.get("conditions", []):
            if condition["type"] == type_ and condition["status"] == "True":
                return condition["reason"], condition["message"]
        return None
