"""A random user: creates jobs of several kinds, and changes and deletes them at any time.

Every draw comes from one generator. What the API refuses is part of the life of a user and is
ignored.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pykueue.api import conditions, labels, objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import DeleteOptions
from pykueue.simulate.administrator import NAMESPACES, TEAM, Action, RandomAdministrator
from pykueue.simulate.job_manifests import JOB_KINDS, PRIORITIES, PYTORCH_JOB, RandomJobs
from pykueue.simulate.system import System

_MOST_JOBS = 25


class RandomUser:
    def __init__(self, system: System) -> None:
        self._system = system
        self._random = system.stream("user")
        self.administrator = RandomAdministrator(system)
        self._manifests = RandomJobs(self._random, system.profile, self.administrator.queues)
        self._actions: list[tuple[int, Action]] = [
            (30, self.apply_jobs),
            (8, self.apply_job_set),
            (4, self.apply_ray_job),
            (3, self.apply_ray_cluster),
            (6, self.apply_pytorch_job),
            (6, self.apply_pods),
            (4, self.apply_stateful_set),
            (2, self.scale_stateful_set),
            (4, self.apply_leader_worker_set),
            (2, self.scale_leader_worker_set),
            (4, self.apply_train_job),
            (20, self.delete_job),
            (3, self.delete_all_jobs),
            (5, self.delete_and_recreate),
            (8, self.edit_parallelism),
            (6, self.toggle_suspend),
            (5, self.toggle_active),
            (3, self.delete_workload),
            (3, self.change_priority),
            (2, self.change_workload_priority),
            (2, self.change_queue),
            (2, self.delete_pod),
            *self.administrator.actions,
        ]
        self._weights = [weight for weight, _ in self._actions]

    async def set_up(self) -> None:
        await self.administrator.set_up()

    async def act(self) -> None:
        """Do one thing, drawn by weight."""
        action = self._random.choices(self._actions, self._weights)[0][1]
        self._system.trace.add(f"user: {getattr(action, '__name__', 'acts')}")
        try:
            await action()
        except (ApiError, ConnectionError):
            self._system.trace.add("user: was refused")
        except asyncio.CancelledError:
            if self._system.connection.client is not None:
                raise
            self._system.trace.add("user: was refused")

    # Jobs

    async def apply_jobs(self) -> None:
        """One Job or a List of several, sent together."""
        namespace = self._namespace()
        count = self._random.choice((1, 1, 2, 6))
        await self._create(resources.JOB, [self._manifests.job(namespace) for _ in range(count)])

    async def apply_job_set(self) -> None:
        await self._create(resources.JOB_SET, [self._manifests.job_set(self._namespace())])

    async def apply_ray_job(self) -> None:
        await self._create(resources.RAY_JOB, [self._manifests.ray_job(self._namespace())])

    async def apply_ray_cluster(self) -> None:
        await self._create(resources.RAY_CLUSTER, [self._manifests.ray_cluster(self._namespace())])

    async def apply_pytorch_job(self) -> None:
        await self._create(PYTORCH_JOB, [self._manifests.pytorch_job(self._namespace())])

    async def apply_pods(self) -> None:
        await self._create(resources.POD, self._manifests.pods(self._namespace()))

    async def apply_stateful_set(self) -> None:
        await self._create(resources.STATEFUL_SET, [self._manifests.stateful_set(self._namespace())])

    async def scale_stateful_set(self) -> None:
        """To nothing and back, too: Kueue refuses other sizes while it has quota."""
        replicas = self._random.choice((0, 1, 2))
        await self._edit(resources.STATEFUL_SET, lambda _set: {"spec": {"replicas": replicas}})

    async def apply_leader_worker_set(self) -> None:
        await self._create(resources.LEADER_WORKER_SET, [self._manifests.leader_worker_set(self._namespace())])

    async def scale_leader_worker_set(self) -> None:
        """Groups come and go; each has a Workload of its own."""
        replicas = self._random.choice((0, 1, 3))
        await self._edit(resources.LEADER_WORKER_SET, lambda _set: {"spec": {"replicas": replicas}})

    async def apply_train_job(self) -> None:
        await self._create(resources.TRAIN_JOB, [self._manifests.train_job(self._namespace())])

    def _namespace(self) -> str:
        return TEAM if self._random.random() < 0.2 else NAMESPACES[0]

    async def _create(self, kind: Resource, manifests: Sequence[Object]) -> None:
        if len(await self.jobs()) >= _MOST_JOBS:
            return
        create = self._system.client.create
        await asyncio.gather(*(create(kind, job, objects.namespace(job)) for job in manifests))

    # Changes

    async def jobs(self) -> list[tuple[Resource, Object]]:
        """Everything of the user's own that is in a queue."""
        return [
            (kind, job)
            for kind in JOB_KINDS
            for job in (await self._system.client.list(kind)).items
            if not objects.owner_references(job)
        ]

    async def _any_job(self) -> tuple[Resource, Object] | None:
        jobs = await self.jobs()
        return self._random.choice(jobs) if jobs else None

    async def delete_job(self) -> None:
        if (chosen := await self._any_job()) is not None:
            await self._delete(*chosen, self._random.choice(("Background", "Background", "Foreground", "Orphan")))

    async def _delete(self, kind: Resource, job: Object, policy: str) -> None:
        options = DeleteOptions(propagation_policy="Background" if kind == resources.POD else policy)
        await self._system.client.delete(kind, objects.name(job), objects.namespace(job), options)

    async def delete_all_jobs(self) -> None:
        deletions = [self._delete(kind, job, "Background") for kind, job in await self.jobs()]
        await asyncio.gather(*deletions, return_exceptions=True)

    async def delete_pod_groups(self) -> None:
        """Deleted pods of a group wait for their replacements, as in Kueue, until the group's
        Workload is deleted.
        """
        for workload in (await self._system.client.list(resources.WORKLOAD)).items:
            if conditions.is_true(workload, "WaitingForReplacementPods"):
                namespace = objects.namespace(workload)
                await self._system.client.delete(resources.WORKLOAD, objects.name(workload), namespace)

    async def deactivate(self, namespace: str, name: str) -> None:
        """End a preemption that repeats for ever."""
        try:
            await self._system.client.patch(resources.WORKLOAD, name, namespace, {"spec": {"active": False}})
        except (ApiError, ConnectionError):
            self._system.trace.add("user: was refused")

    async def delete_and_recreate(self) -> None:
        """Under the same name, as soon as the name is free."""
        chosen = await self._any_job()
        if chosen is None or chosen[0] == resources.POD:
            return
        kind, job = chosen
        namespace = objects.namespace(job)
        await self._system.client.delete(kind, objects.name(job), namespace)
        names = ("name", "namespace", "labels", "annotations")
        metadata = {name: job["metadata"][name] for name in names if name in job["metadata"]}
        spec = {name: value for name, value in job["spec"].items() if name not in ("selector", "suspend")}
        if kind == resources.JOB:
            spec["template"] = self._manifests.template()
        await self._system.client.create(kind, job | {"metadata": metadata, "spec": spec, "status": {}}, namespace)

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
        job_labels = {labels.PRIORITY_CLASS: self._random.choice(list(PRIORITIES))}
        await self._edit(resources.JOB, lambda _job: {"metadata": {"labels": job_labels}})

    async def change_workload_priority(self) -> None:
        """Of one Workload, whether it waits or runs, and not of its job.

        Only of one without a priority class: as in Kueue, a class takes its Workloads back when
        the controllers start, and not before.
        """
        value = self._random.choice((1, 200, 2000))
        workload = await self._any(resources.WORKLOAD)
        if workload is not None and "priorityClassRef" not in workload["spec"]:
            name, namespace = objects.name(workload), objects.namespace(workload)
            await self._system.client.patch(resources.WORKLOAD, name, namespace, {"spec": {"priority": value}})

    async def change_queue(self) -> None:
        job_labels = {labels.QUEUE_NAME: self._random.choice(self.administrator.queues)}
        await self._edit(resources.JOB, lambda _job: {"metadata": {"labels": job_labels}})

    async def delete_workload(self) -> None:
        if (workload := await self._any(resources.WORKLOAD)) is not None:
            await self._system.client.delete(resources.WORKLOAD, objects.name(workload), objects.namespace(workload))

    async def delete_pod(self) -> None:
        if (pod := await self._any(resources.POD)) is not None:
            await self._system.client.delete(resources.POD, objects.name(pod), objects.namespace(pod))

    async def _edit(self, kind: Resource, patch: Callable[[Object], Any]) -> None:
        if (obj := await self._any(kind)) is not None:
            await self._system.client.patch(kind, objects.name(obj), objects.namespace(obj), patch(obj))

    async def _any(self, kind: Resource) -> Object | None:
        items = (await self._system.client.list(kind)).items
        return self._random.choice(items) if items else None
