"""Jobs of all kinds as a random user writes them. Every draw comes from one generator."""

import random

from pykueue.api import labels, resources
from pykueue.api.scheme import Object, Resource
from pykueue.simulate.profile import HOSTNAME, RACK, Profile
from pykueue.translate.jobs import kubeflow

RUNTIME = "pykueue.dev/runtime"
EXIT_CODE = "pykueue.dev/exit-code"
PYTORCH_JOB = kubeflow.FRAMEWORKS[0].resource
JOB_KINDS: tuple[Resource, ...] = (
    resources.JOB,
    resources.JOB_SET,
    resources.RAY_JOB,
    resources.RAY_CLUSTER,
    PYTORCH_JOB,
    resources.STATEFUL_SET,
    resources.LEADER_WORKER_SET,
    resources.TRAIN_JOB,
    resources.POD,
)
PRIORITIES = {"low": 10, "middle": 100, "high": 1000}
TOPOLOGY_QUEUE = "placed"
TRAINING_RUNTIMES = ("torch-distributed", "plainml-distributed")


class RandomJobs:
    """`queues` are the names of LocalQueues."""

    def __init__(self, source: random.Random, profile: Profile, queues: tuple[str, ...]) -> None:
        self._random = source
        self._profile = profile
        self._queues = queues
        self._names = 0

    def job(self, namespace: str) -> Object:
        draw = self._random
        parallelism = draw.randint(1, 3)
        spec: Object = {
            "parallelism": parallelism,
            "completions": draw.choice((parallelism, parallelism + 1)),
            "backoffLimit": draw.randint(0, 2),
            "template": self.template(),
        }
        if draw.random() < 0.3:
            spec["completionMode"] = "Indexed"
        if draw.random() < 0.2:
            spec["ttlSecondsAfterFinished"] = draw.randint(0, 30)
        job = self._labelled("batch/v1", "Job", spec, namespace)
        if draw.random() < 0.1:
            job["metadata"]["labels"][labels.MAX_EXEC_TIME_SECONDS] = str(draw.randint(1, 30))
        is_elastic = self._profile.elastic_jobs and draw.random() < 0.4
        if is_elastic:
            job["metadata"]["annotations"] = {labels.ELASTIC_JOB: "true"}
            spec["completions"] = 6
        self._place([spec["template"]], job, may_require=not is_elastic)
        return job

    def job_set(self, namespace: str) -> Object:
        templates = [self.template(1), self.template(1)]
        replicated = [
            {
                "name": name,
                "replicas": self._random.randint(1, 2),
                "template": {"spec": {"backoffLimit": 1, "template": template}},
            }
            for name, template in zip(("driver", "workers"), templates, strict=True)
        ]
        job_set = self._labelled(resources.JOB_SET.api_version, "JobSet", {"replicatedJobs": replicated}, namespace)
        self._place(templates, job_set)
        return job_set

    def ray_job(self, namespace: str) -> Object:
        spec = {"entrypoint": "sleep 10", "shutdownAfterJobFinishes": True, "rayClusterSpec": self._ray_cluster_spec()}
        return self._labelled(resources.RAY_JOB.api_version, "RayJob", spec, namespace, without_topology=True)

    def ray_cluster(self, namespace: str) -> Object:
        spec = self._ray_cluster_spec()
        return self._labelled(resources.RAY_CLUSTER.api_version, "RayCluster", spec, namespace, without_topology=True)

    def _ray_cluster_spec(self) -> Object:
        group = {"groupName": "workers", "replicas": 1, "minReplicas": 0, "maxReplicas": 2, "rayStartParams": {}}
        return {
            "headGroupSpec": {"rayStartParams": {}, "template": _ray_template()},
            "workerGroupSpecs": [group | {"template": _ray_template()}],
        }

    def pytorch_job(self, namespace: str) -> Object:
        replicas: dict[str, Object] = {}
        for name, count in (("Master", 1), ("Worker", self._random.randint(1, 2))):
            template = self.template(1)
            template["spec"]["containers"][0]["name"] = "pytorch"
            template["spec"].pop("restartPolicy")
            # One that fails and is restarted in place would never come to rest.
            policy = "Never" if EXIT_CODE in template["metadata"]["annotations"] else "OnFailure"
            replicas[name] = {"replicas": count, "restartPolicy": policy, "template": template}
        job = self._labelled(PYTORCH_JOB.api_version, "PyTorchJob", {"pytorchReplicaSpecs": replicas}, namespace)
        self._place([replica["template"] for replica in replicas.values()], job)
        return job

    def leader_worker_set(self, namespace: str) -> Object:
        template = self._serving_template()
        worker_template: Object = {"size": self._random.randint(1, 3), "workerTemplate": template}
        spec = {"replicas": self._random.randint(1, 2), "leaderWorkerTemplate": worker_template}
        api_version = resources.LEADER_WORKER_SET.api_version
        leader_worker_set = self._labelled(api_version, "LeaderWorkerSet", spec, namespace)
        self._place([template], leader_worker_set)
        return leader_worker_set

    def train_job(self, namespace: str) -> Object:
        runtime, seconds = self._random.choice(TRAINING_RUNTIMES), self._random.randint(1, 60)
        reference = {
            "apiGroup": resources.TRAIN_JOB.group,
            "kind": resources.CLUSTER_TRAINING_RUNTIME.kind,
            "name": runtime,
        }
        trainer = {
            "numNodes": self._random.randint(1, 2),
            "command": ["sleep", str(seconds)],
            "resourcesPerNode": {"requests": {"cpu": "1"}},
        }
        spec = {"runtimeRef": reference, "trainer": trainer}
        return self._labelled(resources.TRAIN_JOB.api_version, "TrainJob", spec, namespace, without_topology=True)

    def _serving_template(self) -> Object:
        """Its pods run until they are deleted: one that ends would be started again for ever."""
        template = self.template(1)
        template["metadata"]["annotations"] = {RUNTIME: "until-deleted"}
        template["spec"]["restartPolicy"] = "Always"
        return template

    def stateful_set(self, namespace: str) -> Object:
        template = self._serving_template()
        spec: Object = {
            "replicas": self._random.randint(1, 3),
            "podManagementPolicy": self._random.choice(("OrderedReady", "Parallel")),
            "template": template,
        }
        stateful_set = self._labelled("apps/v1", "StatefulSet", spec, namespace)
        selected = {"app": stateful_set["metadata"]["name"]}
        template["metadata"]["labels"], spec["selector"] = selected, {"matchLabels": selected}
        self._place([template], stateful_set)
        return stateful_set

    def pods(self, namespace: str) -> list[Object]:
        """One pod, or a group of pods."""
        count = self._random.randint(1, 3)
        template = self.template(1)
        first = self._labelled("v1", "Pod", template["spec"], namespace)
        self._place([template], first)
        group = first["metadata"]["name"]
        pods = []
        for number in range(count):
            metadata: Object = {
                "name": f"{group}-{number}",
                "namespace": namespace,
                "labels": dict(first["metadata"]["labels"]),
            }
            metadata["annotations"] = dict(template["metadata"]["annotations"])
            if count > 1:
                metadata["labels"][labels.POD_GROUP_NAME] = group
                metadata["annotations"][labels.POD_GROUP_TOTAL_COUNT] = str(count)
            pods.append(first | {"metadata": metadata})
        return pods

    def template(self, cpu: int = 0) -> Object:
        draw = self._random
        annotations = {RUNTIME: draw.choice(("1", "5", "20", "60", "until-deleted"))}
        if draw.random() < 0.1:
            annotations[EXIT_CODE] = "1"
        requests = {"cpu": str(cpu or draw.randint(1, 3))}
        container = {"name": "main", "image": "image", "resources": {"requests": requests}}
        spec: Object = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1}
        if self._profile.pods_ready is not None and draw.random() < 0.15:
            spec["nodeSelector"] = {HOSTNAME: "no-such-node"}  # its pods never become ready
        return {"metadata": {"annotations": annotations}, "spec": spec}

    def _labelled(
        self, api_version: str, kind: str, spec: Object, namespace: str, *, without_topology: bool = False
    ) -> Object:
        self._names += 1
        queues = [queue for queue in self._queues if queue != TOPOLOGY_QUEUE] if without_topology else self._queues
        job_labels = {labels.QUEUE_NAME: self._random.choice(queues)}
        if self._random.random() < 0.6:
            job_labels[labels.PRIORITY_CLASS] = self._random.choice(list(PRIORITIES))
        metadata = {"name": f"{kind.lower()}-{self._names}", "namespace": namespace, "labels": job_labels}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}

    def _place(self, templates: list[Object], job: Object, *, may_require: bool = True) -> None:
        """In the queue with a topology every pod set says how close its pods must be."""
        if job["metadata"]["labels"][labels.QUEUE_NAME] != TOPOLOGY_QUEUE:
            return
        for template in templates:
            choices = [(labels.POD_SET_UNCONSTRAINED_TOPOLOGY, "true")]
            if may_require:
                choices += [
                    (labels.POD_SET_REQUIRED_TOPOLOGY, self._random.choice((RACK, HOSTNAME))),
                    (labels.POD_SET_PREFERRED_TOPOLOGY, self._random.choice((RACK, HOSTNAME))),
                ]
            name, value = self._random.choice(choices)
            template["metadata"]["annotations"][name] = value


def _ray_template() -> Object:
    container = {"name": "ray", "image": "ray", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
