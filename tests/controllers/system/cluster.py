"""A whole cluster in this process: the API in memory, the controllers on it, and ways to disturb
them.
"""

import asyncio
from contextlib import asynccontextmanager, suppress

from tests.apiserver.shared_copies import changed_by_a_reader

from pykueue.api import registry, resources
from pykueue.api.errors import ApiError
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.controllers import settings
from pykueue.controllers.system import Controllers
from pykueue.translate.jobs import batch_job, kubeflow

JOBS = batch_job.FRAMEWORK.resource
PYTORCH_JOBS = kubeflow.FRAMEWORKS[0].resource
CONFIGURATION = {
    "integrations": {"frameworks": ["batch/job", "kubeflow.org/pytorchjob", "ray.io/rayjob", "ray.io/raycluster"]}
}
DEADLINE_SECONDS = 20


class Cluster:
    def __init__(self, client, configuration):
        self.client = client
        self.configuration = configuration
        self.controllers = None

    async def start(self, client=None):
        self.controllers = Controllers(client or self.client, self.configuration)
        await self.controllers.start()

    async def stop(self):
        if self.controllers is not None:
            await self.controllers.stop()
            self.controllers = None

    async def create(self, resource, obj, namespace=""):
        return await self.client.create(resource, obj, namespace)

    async def get(self, resource, name, namespace=""):
        try:
            return await self.client.get(resource, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def merge(self, resource, name, patch, *, namespace="", subresource=""):
        return await self.client.patch(resource, name, namespace, patch, subresource=subresource)

    async def until(self, question, *arguments):
        """Ask again until the answer is yes; the last answer is returned."""
        for _ in range(DEADLINE_SECONDS * 100):
            if answer := await question(*arguments):
                return answer
            await asyncio.sleep(0.01)
        raise TimeoutError(f"{question.__name__}{arguments} is still not so")

    async def workload_of(self, name, kind="Job", namespace="default"):
        for workload in (await self.client.list(resources.WORKLOAD, namespace)).items:
            for reference in workload["metadata"].get("ownerReferences") or ():
                if (reference["kind"], reference["name"]) == (kind, name):
                    return workload
        return None

    async def is_running(self, name, resource=PYTORCH_JOBS, namespace="default"):
        job = await self.get(resource, name, namespace)
        return job is not None and not is_suspended(job)

    async def runs(self, name, resource=PYTORCH_JOBS):
        await self.until(self.is_running, name, resource)

    async def pends(self, name, kind="PyTorchJob"):
        async def is_pending():
            workload = await self.workload_of(name, kind)
            return workload is not None and status_of(workload, "QuotaReserved") == "False"

        await self.until(is_pending)

    async def make_queue(self, name="cq", cpu="4", **spec):
        flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
        if await self.get(resources.RESOURCE_FLAVOR, "default") is None:
            await self.create(resources.RESOURCE_FLAVOR, kueue("ResourceFlavor", "default"))
        await self.create(
            resources.CLUSTER_QUEUE, kueue("ClusterQueue", name, namespaceSelector={}, resourceGroups=groups, **spec)
        )
        queue = kueue("LocalQueue", name, clusterQueue=name)
        queue["metadata"]["namespace"] = "default"
        await self.create(resources.LOCAL_QUEUE, queue, "default")


def kueue(kind, name, **spec):
    obj = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
    return obj | ({"spec": spec} if spec else {})


def priority_class(name, value):
    return kueue("WorkloadPriorityClass", name) | {"value": value}


def _labels(queue, priority):
    labels = {"kueue.x-k8s.io/queue-name": queue}
    return labels | ({"kueue.x-k8s.io/priority-class": priority} if priority else {})


def pytorch_job(name, *, cpu="1", queue="cq", priority=""):
    template = {"spec": {"containers": [{"name": "pytorch", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default", "labels": _labels(queue, priority)},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}},
    }


def job(name, *, cpu="1", queue="cq", **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": _labels(queue, "")},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}, **spec},
    }


def is_suspended(obj):
    spec = obj["spec"]
    return bool(spec.get("suspend", (spec.get("runPolicy") or {}).get("suspend")))


def status_of(obj, condition_type):
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == condition_type:
            return condition["status"]
    return None


@asynccontextmanager
async def running_cluster(configuration=CONFIGURATION, *, starts=True):
    scheme = registry.scheme()
    core = Core(Store(MemoryLog()), scheme, settings=settings.admission_settings(configuration))
    await core.start()
    cluster = Cluster(LocalClient(core, scheme, shows_managers=False), configuration)
    with suppress(ApiError):
        await cluster.create(
            resources.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        )
    try:
        if starts:
            await cluster.start()
        yield cluster
        assert changed_by_a_reader(core.store) == []
    finally:
        await cluster.stop()
        await core.stop()
