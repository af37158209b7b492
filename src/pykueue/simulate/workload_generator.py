"""A random user: creates queues and jobs of several kinds, and changes and deletes them at any
time.

Every draw comes from one generator. What the API refuses is part of the life of a user and is
ignored.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pykueue.api import conditions, objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import DeleteOptions
from pykueue.simulate.system import System

NAMESPACE = "default"
FLAVORS = ("on-demand", "spot")
QUEUES = ("alpha", "beta", "gamma", "solo")
PRIORITIES = {"low": 10, "middle": 100, "high": 1000}
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
RUNTIME = "pykueue.dev/runtime"
EXIT_CODE = "pykueue.dev/exit-code"
JOB_KINDS: tuple[Resource, ...] = (
    resources.JOB,
    resources.JOB_SET,
    resources.RAY_JOB,
    resources.RAY_CLUSTER,
    resources.POD,
)
ONE_FLAVOR = ("alpha", "beta", "gamma")
"""Queues for jobs with several pod sets: with two flavors their Pending message changes for ever.
"""
_MOST_JOBS = 25


class RandomUser:
    def __init__(self, system: System) -> None:
        self._system = system
        self._random = system.stream("user")
        self._names = 0
        self._actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (30, self.apply_jobs),
            (8, self.apply_job_set),
            (6, self.apply_ray_job),
            (6, self.apply_pod_group),
            (20, self.delete_job),
            (3, self.delete_all_jobs),
            (5, self.delete_and_recreate),
            (6, self.edit_parallelism),
            (6, self.toggle_suspend),
            (6, self.change_quota),
            (4, self.stop_queue),
            (4, self.stop_local_queue),
            (5, self.toggle_active),
            (3, self.delete_workload),
            (3, self.change_priority),
            (2, self.delete_node),
            (2, self.delete_pod),
        ]

    async def act(self) -> None:
        """Do one thing, drawn by weight."""
        weights = [weight for weight, _ in self._actions]
        action = self._random.choices(self._actions, weights)[0][1]
        self._system.trace.add(f"user: {action.__name__}")
        try:
            await action()
        except (ApiError, ConnectionError):
            self._system.trace.add("user: was refused")
        except asyncio.CancelledError:
            if self._system.connection.client is not None:
                raise
            self._system.trace.add("user: was refused")

    # Queues

    async def set_up(self) -> None:
        client = self._system.client
        for name in FLAVORS:
            await client.create(resources.RESOURCE_FLAVOR, _kueue("ResourceFlavor", name))
        for name, value in PRIORITIES.items():
            await client.create(
                resources.WORKLOAD_PRIORITY_CLASS, _kueue("WorkloadPriorityClass", name) | {"value": value}
            )
        for name in QUEUES:
            await client.create(resources.CLUSTER_QUEUE, self._cluster_queue(name))
            queue = _kueue("LocalQueue", name, clusterQueue=name)
            await client.create(resources.LOCAL_QUEUE, queue, NAMESPACE)

    def _cluster_queue(self, name: str) -> Object:
        draw = self._random
        flavors = FLAVORS[:1] if name in ONE_FLAVOR else FLAVORS
        spec: Object = {
            "namespaceSelector": {},
            "queueingStrategy": draw.choice(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
            "preemption": {
                "withinClusterQueue": draw.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
                "reclaimWithinCohort": draw.choice(("Never", "Any", "LowerPriority")),
            },
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [self._quota(flavor) for flavor in flavors]}],
        }
        if name != "solo":
            spec["cohortName"] = "shared"
        return _kueue("ClusterQueue", name, **spec)

    def _quota(self, flavor: str) -> Object:
        return {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(self._random.randint(2, 5))}]}

    async def change_quota(self) -> None:
        queue = await self._system.client.get(resources.CLUSTER_QUEUE, self._random.choice(QUEUES))
        group = queue["spec"]["resourceGroups"][0]
        flavors = [self._quota(flavor["name"]) for flavor in group["flavors"]]
        patch = {"spec": {"resourceGroups": [group | {"flavors": flavors}]}}
        await self._system.client.patch(resources.CLUSTER_QUEUE, objects.name(queue), "", patch)

    async def stop_queue(self) -> None:
        patch = {"spec": {"stopPolicy": self._random.choice(("None", "None", "Hold", "HoldAndDrain"))}}
        await self._system.client.patch(resources.CLUSTER_QUEUE, self._random.choice(QUEUES), "", patch)

    async def stop_local_queue(self) -> None:
        patch = {"spec": {"stopPolicy": self._random.choice(("None", "None", "Hold", "HoldAndDrain"))}}
        await self._system.client.patch(resources.LOCAL_QUEUE, self._random.choice(QUEUES), NAMESPACE, patch)

    async def open_queues(self) -> None:
        """At the end of everything, so that nothing is left waiting for a stopped queue."""
        for name in QUEUES:
            patch = {"spec": {"stopPolicy": "None"}}
            await self._system.client.patch(resources.CLUSTER_QUEUE, name, "", patch)
            await self._system.client.patch(resources.LOCAL_QUEUE, name, NAMESPACE, patch)

    # Jobs

    async def apply_jobs(self) -> None:
        """One Job or a List of several, sent together."""
        if await self._has_enough():
            return
        jobs = [self._job() for _ in range(self._random.choice((1, 1, 2, 6)))]
        create = self._system.client.create
        await asyncio.gather(*(create(resources.JOB, job, NAMESPACE) for job in jobs))

    def _job(self) -> Object:
        draw = self._random
        parallelism = draw.randint(1, 3)
        spec: Object = {
            "parallelism": parallelism,
            "completions": draw.choice((parallelism, parallelism + 1)),
            "backoffLimit": draw.randint(0, 2),
            "template": self._template(),
        }
        if draw.random() < 0.3:
            spec["completionMode"] = "Indexed"
        if draw.random() < 0.2:
            spec["ttlSecondsAfterFinished"] = draw.randint(0, 30)
        return self._labelled("batch/v1", "Job", spec)

    def _template(self, cpu: int = 0) -> Object:
        draw = self._random
        annotations = {RUNTIME: draw.choice(("1", "5", "20", "60", "until-deleted"))}
        if draw.random() < 0.1:
            annotations[EXIT_CODE] = "1"
        requests = {"cpu": str(cpu or draw.randint(1, 3))}
        container = {"name": "main", "image": "image", "resources": {"requests": requests}}
        return {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1},
        }

    def _labelled(self, api_version: str, kind: str, spec: Object, queues: tuple[str, ...] = QUEUES) -> Object:
        self._names += 1
        labels = {QUEUE_LABEL: self._random.choice(queues)}
        if self._random.random() < 0.6:
            labels[PRIORITY_LABEL] = self._random.choice(list(PRIORITIES))
        metadata = {"name": f"{kind.lower()}-{self._names}", "namespace": NAMESPACE, "labels": labels}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}

    async def apply_job_set(self) -> None:
        if await self._has_enough():
            return
        replicated = [
            {
                "name": name,
                "replicas": self._random.randint(1, 2),
                "template": {"spec": {"backoffLimit": 1, "template": self._template(1)}},
            }
            for name in ("driver", "workers")
        ]
        job_set = self._labelled(resources.JOB_SET.api_version, "JobSet", {"replicatedJobs": replicated}, ONE_FLAVOR)
        await self._system.client.create(resources.JOB_SET, job_set, NAMESPACE)

    async def apply_ray_job(self) -> None:
        if await self._has_enough():
            return
        group = {"groupName": "workers", "replicas": 1, "minReplicas": 0, "maxReplicas": 2, "rayStartParams": {}}
        cluster = {
            "headGroupSpec": {"rayStartParams": {}, "template": self._ray_template()},
            "workerGroupSpecs": [group | {"template": self._ray_template()}],
        }
        spec = {"entrypoint": "sleep 10", "shutdownAfterJobFinishes": True, "rayClusterSpec": cluster}
        ray_job = self._labelled(resources.RAY_JOB.api_version, "RayJob", spec, ONE_FLAVOR)
        await self._system.client.create(resources.RAY_JOB, ray_job, NAMESPACE)

    def _ray_template(self) -> Object:
        container = {"name": "ray", "image": "ray", "resources": {"requests": {"cpu": "1"}}}
        return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}

    async def apply_pod_group(self) -> None:
        if await self._has_enough():
            return
        count = self._random.randint(1, 3)
        template = self._template(1)
        first = self._labelled("v1", "Pod", template["spec"])
        group, labels = objects.name(first), objects.labels(first)
        for number in range(count):
            pod = first | {"metadata": {"name": f"{group}-{number}", "namespace": NAMESPACE, "labels": dict(labels)}}
            pod["metadata"]["annotations"] = dict(template["metadata"]["annotations"])
            if count > 1:
                pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = group
                pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = str(count)
            await self._system.client.create(resources.POD, pod, NAMESPACE)

    # Changes

    async def jobs(self) -> list[tuple[Resource, Object]]:
        """Everything of the user's own that is in a queue."""
        return [
            (kind, job)
            for kind in JOB_KINDS
            for job in (await self._system.client.list(kind, NAMESPACE)).items
            if not objects.owner_references(job)
        ]

    async def _has_enough(self) -> bool:
        return len(await self.jobs()) >= _MOST_JOBS

    async def _any_job(self) -> tuple[Resource, Object] | None:
        jobs = await self.jobs()
        return self._random.choice(jobs) if jobs else None

    async def delete_job(self) -> None:
        if (chosen := await self._any_job()) is not None:
            await self._delete(*chosen, self._random.choice(("Background", "Background", "Foreground", "Orphan")))

    async def _delete(self, kind: Resource, job: Object, policy: str) -> None:
        options = DeleteOptions(propagation_policy="Background" if kind == resources.POD else policy)
        await self._system.client.delete(kind, objects.name(job), NAMESPACE, options)

    async def delete_all_jobs(self) -> None:
        deletions = [self._delete(kind, job, "Background") for kind, job in await self.jobs()]
        await asyncio.gather(*deletions, return_exceptions=True)

    async def delete_pod_groups(self) -> None:
        """Deleted pods of a group wait for their replacements, as in Kueue, until the group's
        Workload is deleted.
        """
        for workload in (await self._system.client.list(resources.WORKLOAD, NAMESPACE)).items:
            if conditions.is_true(workload, "WaitingForReplacementPods"):
                await self._system.client.delete(resources.WORKLOAD, objects.name(workload), NAMESPACE)

    async def delete_and_recreate(self) -> None:
        """Under the same name, as soon as the name is free."""
        chosen = await self._any_job()
        if chosen is None or chosen[0] == resources.POD:
            return
        kind, job = chosen
        await self._system.client.delete(kind, objects.name(job), NAMESPACE)
        metadata = {name: job["metadata"][name] for name in ("name", "namespace", "labels")}
        spec = {name: value for name, value in job["spec"].items() if name not in ("selector", "suspend")}
        if kind == resources.JOB:
            spec["template"] = self._template()
        await self._system.client.create(kind, job | {"metadata": metadata, "spec": spec, "status": {}}, NAMESPACE)

    async def edit_parallelism(self) -> None:
        await self._edit(resources.JOB, lambda _job: {"spec": {"parallelism": self._random.randint(1, 4)}})

    async def toggle_suspend(self) -> None:
        """Somebody else than Kueue may start a Job too: then its pods run until Kueue suspends it
        again.
        """

        def patch(job: Object) -> Object:
            self._system.monitor.started_by_user.add(objects.uid(job))
            return {"spec": {"suspend": not job["spec"].get("suspend", False)}}

        await self._edit(resources.JOB, patch)

    async def toggle_active(self) -> None:
        def patch(workload: Object) -> Object:
            return {"spec": {"active": not workload["spec"].get("active", True)}}

        await self._edit(resources.WORKLOAD, patch)

    async def change_priority(self) -> None:
        labels = {PRIORITY_LABEL: self._random.choice(list(PRIORITIES))}
        await self._edit(resources.JOB, lambda _job: {"metadata": {"labels": labels}})

    async def delete_workload(self) -> None:
        if (workload := await self._any(resources.WORKLOAD)) is not None:
            await self._system.client.delete(resources.WORKLOAD, objects.name(workload), NAMESPACE)

    async def delete_pod(self) -> None:
        if (pod := await self._any(resources.POD)) is not None:
            await self._system.client.delete(resources.POD, objects.name(pod), NAMESPACE)

    async def delete_node(self) -> None:
        """Nodes come back when the cluster's process starts again, or at once by another one of
        the same name.
        """
        nodes = (await self._system.client.list(resources.NODE)).items
        if len(nodes) > 1:
            node = self._random.choice(nodes)
            await self._system.client.delete(resources.NODE, objects.name(node))

    async def _edit(self, kind: Resource, patch: Callable[[Object], Any]) -> None:
        if (obj := await self._any(kind)) is not None:
            await self._system.client.patch(kind, objects.name(obj), NAMESPACE, patch(obj))

    async def _any(self, kind: Resource) -> Object | None:
        items = (await self._system.client.list(kind, NAMESPACE)).items
        return self._random.choice(items) if items else None


def _kueue(kind: str, name: str, **spec: Any) -> Object:
    obj: Object = {
        "apiVersion": f"{resources.KUEUE_GROUP}/{resources.KUEUE_VERSION}",
        "kind": kind,
        "metadata": {"name": name},
    }
    return obj | ({"spec": spec} if spec else {})
