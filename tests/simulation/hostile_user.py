"""A user who tries to get quota for nothing: random writes to objects of their own.

The user has the rights of the role `edit`: no bindings, no status, no Workloads. Every object is
created in a queue. Every draw comes from one generator.
"""

import asyncio
import copy

from pykueue.api import objects, reserved_keys, resources
from pykueue.api.errors import ApiError
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.local_client import LocalClient
from pykueue.kube.client import DeleteOptions, PatchType

NAMESPACE = "default"
JANE = UserInfo(name="jane", groups=("system:authenticated",))
QUEUE = "kueue.x-k8s.io/queue-name"
GROUP = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
ROLE = "kueue.x-k8s.io/role-hash"
OWNED = (resources.JOB, resources.JOB_SET, resources.POD)
KEYS = (
    *sorted(reserved_keys.RESERVED),
    "kueue.x-k8s.io/managed",
    "kueue.x-k8s.io/podset",
    "kueue.x-k8s.io/workload",
    "kueue.x-k8s.io/pod-suspending-parent",
    "kueue.x-k8s.io/prebuilt-workload-name",
    "kueue.x-k8s.io/elastic-job",
    ROLE,
    GROUP,
    TOTAL,
)
MOST_OBJECTS = 12


class HostileUser:
    def __init__(self, system):
        self._system = system
        self._random = system.stream("hostile")
        self._names = 0
        self.refused = self.accepted = 0
        self._actions = [
            *([self.create_job] * 3),
            self.create_job_set,
            *([self.create_pods] * 2),
            self.change_labels,
            self.change_annotations,
            self.change_owner,
            self.change_finalizers,
            *([self.change_job] * 2),
            self.change_template,
            self.change_job_set,
            *([self.change_pod] * 3),
            *([self.delete] * 3),
        ]

    @property
    def client(self):
        return LocalClient(self._system._core, self._system.scheme, user=JANE, shows_managers=False)

    async def set_up(self):
        admin = self._system.client
        await admin.create(resources.RESOURCE_FLAVOR, kueue("ResourceFlavor", "default"))
        quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "6"}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        queue = kueue("ClusterQueue", "main", namespaceSelector={}, resourceGroups=groups)
        await admin.create(resources.CLUSTER_QUEUE, queue)
        await admin.create(resources.LOCAL_QUEUE, kueue("LocalQueue", "main", clusterQueue="main"), NAMESPACE)
        runtime_class = {"metadata": {"name": "kata"}, "handler": "k", "overhead": {"podFixed": {"cpu": "2"}}}
        await admin.create(resources.RUNTIME_CLASS, runtime_class)

    async def act(self):
        action = self._random.choice(self._actions)
        self._system.trace.add(f"jane: {action.__name__}")
        try:
            await action()
            self.accepted += 1
        except ApiError as error:
            self._system.trace.add(f"jane: was refused, {error.code}")
            self.refused += 1

    # Creating

    def template(self):
        draw = self._random
        container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": draw.choice("1123")}}}
        spec = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1}
        if draw.random() < 0.4:
            spec |= copy.deepcopy(draw.choice(self.understatements()))
        annotations = {"pykueue.dev/runtime": draw.choice(["20", "until-deleted", "until-deleted"])}
        if draw.random() < 0.2:
            annotations |= {draw.choice(KEYS): draw.choice(["true", "0", "x"])}
        return {"metadata": {"annotations": annotations, "labels": {"mine": "yes"}}, "spec": spec}

    def understatements(self):
        node = self._random.choice(["simulated-1", "simulated-2"])
        return [
            {"overhead": {"cpu": "-1"}},
            {"overhead": {"cpu": "1"}},
            {"resources": {"requests": {"cpu": "10m"}}},
            {"resources": {"requests": {"cpu": "4"}}},
            {"nodeName": node},
            {"runtimeClassName": "kata"},
            {"schedulingGates": [{"name": "jane.io/gate"}]},
            {"initContainers": [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "4"}}}]},
        ]

    def named(self, kind, api_version, spec):
        self._names += 1
        metadata = {"name": f"{kind.lower()}-{self._names}", "namespace": NAMESPACE, "labels": {QUEUE: "main"}}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}

    async def create(self, resource, obj):
        if len(await self.objects()) > MOST_OBJECTS:
            return
        if self._random.random() < 0.2:
            obj["metadata"]["ownerReferences"] = await self.references()
        await self.client.create(resource, obj, NAMESPACE)

    async def create_job(self):
        draw = self._random
        spec = {"parallelism": draw.randint(1, 3), "completions": 20, "backoffLimit": 1, "template": self.template()}
        if draw.random() < 0.3:
            spec |= {"manualSelector": True, "selector": {"matchLabels": {"mine": "yes"}}}
        await self.create(resources.JOB, self.named("Job", "batch/v1", spec | {"suspend": draw.random() < 0.5}))

    async def create_job_set(self):
        job = {"spec": {"backoffLimit": 1, "template": self.template()}}
        replicated = [{"name": "a", "replicas": self._random.randint(1, 2), "template": job}]
        spec = {"replicatedJobs": replicated}
        await self.create(resources.JOB_SET, self.named("JobSet", resources.JOB_SET.api_version, spec))

    async def create_pods(self):
        """One pod, or a group whose members say that they have the same role."""
        draw = self._random
        count = draw.choice([1, 2, 3])
        group = self.named("Pod", "v1", {})["metadata"]["name"]
        if draw.random() < 0.2:
            workloads = (await self._system.client.list(resources.WORKLOAD, NAMESPACE)).items
            group = objects.name(draw.choice(workloads)) if workloads else group
        for _ in range(count):
            template = self.template()
            pod = self.named("Pod", "v1", template["spec"])
            pod["metadata"]["annotations"] = template["metadata"]["annotations"]
            if count > 1:
                pod["metadata"]["labels"][GROUP] = group
                pod["metadata"]["annotations"][TOTAL] = str(count)
                if draw.random() < 0.4:
                    pod["metadata"]["annotations"][ROLE] = "same"
            await self.create(resources.POD, pod)

    # Changing

    async def objects(self):
        """The user's objects, with the children of their jobs."""
        return [(resource, obj) for resource in OWNED for obj in (await self.client.list(resource, NAMESPACE)).items]

    async def any_of(self, *chosen):
        owned = [(resource, obj) for resource, obj in await self.objects() if not chosen or resource in chosen]
        return self._random.choice(owned) if owned else (None, None)

    async def references(self):
        resource, owner = await self.any_of()
        if owner is None:
            return []
        return [
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "name": objects.name(owner),
                "uid": objects.uid(owner),
                "controller": self._random.random() < 0.8,
            }
        ]

    async def patch(self, resource, obj, patch, subresource="", patch_type=PatchType.MERGE):
        if obj is not None:
            name = objects.name(obj)
            await self.client.patch(resource, name, NAMESPACE, patch, subresource=subresource, patch_type=patch_type)

    async def change_labels(self):
        """Any label but the queue's: without it, a job is none of Kueue's."""
        resource, obj = await self.any_of()
        keys = [key for key in objects.labels(obj or {"metadata": {}}) if key != QUEUE]
        if keys:
            labels = {self._random.choice(keys): self._random.choice([None, "other"])}
            await self.patch(resource, obj, {"metadata": {"labels": labels}})

    async def change_annotations(self):
        resource, obj = await self.any_of()
        annotations = {self._random.choice(KEYS): self._random.choice([None, "true", "0,1", "x", "99"])}
        await self.patch(resource, obj, {"metadata": {"annotations": annotations}})

    async def change_owner(self):
        resource, obj = await self.any_of()
        references = self._random.choice([None, await self.references()])
        await self.patch(resource, obj, {"metadata": {"ownerReferences": references}})

    async def change_finalizers(self):
        resource, obj = await self.any_of()
        finalizers = self._random.choice([None, ["orphan"], ["foregroundDeletion"]])
        await self.patch(resource, obj, {"metadata": {"finalizers": finalizers}})

    async def change_job(self):
        resource, obj = await self.any_of(resources.JOB)
        draw = self._random
        change = draw.choice([{"suspend": draw.random() < 0.5}, {"parallelism": draw.randint(1, 16)}])
        await self.patch(resource, obj, {"spec": change})

    async def change_template(self):
        resource, obj = await self.any_of(resources.JOB)
        await self.patch(resource, obj, {"spec": {"template": self.template()}})

    async def change_job_set(self):
        resource, obj = await self.any_of(resources.JOB_SET)
        if obj is not None:
            replicated = copy.deepcopy(obj["spec"]["replicatedJobs"])
            replicated[0]["replicas"] = self._random.randint(1, 5)
            change = self._random.choice([{"replicatedJobs": replicated}, {"suspend": False}])
            await self.patch(resource, obj, {"spec": change})

    async def change_pod(self):
        resource, obj = await self.any_of(resources.POD)
        containers = [{"name": "main", "resources": {"requests": {"cpu": self._random.choice(["1m", "5"])}}}]
        patch, subresource = self._random.choice(
            [
                ({"nodeName": "simulated-1"}, ""),
                ({"schedulingGates": None}, ""),
                ({"containers": containers}, ""),
                ({"containers": containers}, "resize"),
                ({"overhead": {"cpu": "-1"}}, ""),
                ({"nodeSelector": {"a": "b"}}, ""),
                ({"activeDeadlineSeconds": 5}, ""),
            ]
        )
        patch_type = PatchType.STRATEGIC if "containers" in patch else PatchType.MERGE
        await self.patch(resource, obj, {"spec": patch}, subresource, patch_type)

    async def delete(self):
        resource, obj = await self.any_of()
        if obj is not None:
            policy = self._random.choice(["", "Background", "Foreground", "Orphan"])
            grace = self._random.choice([None, 0])
            options = DeleteOptions(propagation_policy=policy, grace_period_seconds=grace)
            await self.client.delete(resource, objects.name(obj), NAMESPACE, options)


def kueue(kind, name, **spec):
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


class Everything(set):
    """Every uid: a user may start any job by hand, and Kueue stops it again."""

    def isdisjoint(self, _other):
        return False


async def story(campaign, episodes):
    """Episodes of hostile writes, each followed by rest."""
    system = campaign.system
    system.faults.is_calm = True
    system.monitor.started_by_user = Everything()
    await system.start()
    user = HostileUser(system)
    await user.set_up()
    await campaign.rest()
    for _ in range(episodes):
        for _ in range(30):
            await user.act()
            await asyncio.sleep(user._random.choice([0, 0.1, 1, 5]))
        await campaign.rest()
        yield user
