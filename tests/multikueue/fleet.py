"""A manager and its workers on one loop in virtual time, with a network between them.

Every cluster has an API server, controllers and an embedded cluster whose containers only take
time. One seed gives one run.
"""

import asyncio
import base64
import logging
import random
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml
from tests.multikueue.network import Link, LinkedClient
from tests.multikueue.quota_check import QuotaCheck

from pykueue.api import conditions, entropy, objects, registry, resources
from pykueue.api.errors import ApiError
from pykueue.api.times import SECOND_NS
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.store import Store
from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster
from pykueue.controllers import settings
from pykueue.controllers.system import Controllers
from pykueue.simulate.containers import Machine
from pykueue.simulate.event_loop import Process, SimulationLoop, VirtualClock
from pykueue.simulate.faults import ApiConnection, FaultRates, Faults, FaultyClient
from pykueue.simulate.system import SlowLog
from pykueue.simulate.trace import Trace

NAMESPACES = ("default", "kueue-system")
FRAMEWORKS = [
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "ray.io/raycluster",
    "pod",
    "statefulset",
    "kubeflow.org/pytorchjob",
]
RUNTIME = "pykueue.dev/runtime"
MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
STEP_SECONDS = 0.5


class SimulatedCluster:
    """One cluster of the fleet."""

    def __init__(self, name, fleet, configuration):
        self.name = name
        self.configuration = configuration
        self.connection = ApiConnection()
        self.started = []
        """The pods whose containers started, in order."""
        self._fleet = fleet
        self._log = SlowLog()
        self._core = None
        self._processes = {}
        self.machine = Machine(fleet.clock, self._container_started)

    @property
    def client(self):
        return self.connection.local()

    @property
    def store(self):
        return self._core.store

    def _container_started(self, process):
        self.started.append(process.pod)
        self._fleet.on_start(self.name, process.pod)

    async def start(self):
        await self.start_api_server()
        for name in NAMESPACES:
            await self.client.create(resources.NAMESPACE, {"metadata": {"name": name}})
        self.start_cluster()
        self.start_controllers()

    async def start_api_server(self):
        process = Process(f"{self.name} api server")
        clock = self._fleet.clock
        now = lambda: datetime.fromtimestamp(clock.now_ns() / SECOND_NS, UTC)  # noqa: E731
        admission = settings.admission_settings(self.configuration)
        scheme = registry.scheme()
        self._core = Core(Store(self._log), scheme, settings=admission, clock=now)
        await process.spawn(self._core.start())
        self.store.listeners.append(QuotaCheck(self.name, self.store, self._fleet.violations))
        self.connection.open(process, LocalClient(self._core, scheme, shows_managers=False))

    def start_controllers(self):
        self._start("controllers", self._run_controllers)

    def start_cluster(self):
        self._start("cluster", self._run_cluster)

    def _start(self, name, run):
        process = self._processes[name] = Process(f"{self.name} {name}")
        process.spawn(self._repeat(process, run))

    async def _repeat(self, process, run):
        while True:
            try:
                await run(process)
            except* (ApiError, OSError):
                pass
            await asyncio.sleep(1)

    def kill(self, name):
        self._processes.pop(name).kill()

    async def _run_controllers(self, process):
        fleet = self._fleet
        client = FaultyClient(process, self.connection, fleet.faults)
        controllers = Controllers(
            client, self.configuration, fleet.clock, connect=lambda document: fleet.connect(process, document)
        )
        fleet.controllers[self.name] = controllers
        await controllers.run()

    async def _run_cluster(self, process):
        client = FaultyClient(process, self.connection, self._fleet.faults, is_remote=False)
        directory = self._fleet.directory / self.name
        cluster = LocalCluster(client, self._fleet.clock, ClusterOptions(runtime="simulated", directory=directory))
        cluster.kubelet.runtime = self.machine
        try:
            await cluster.start()
            await asyncio.Event().wait()
        finally:
            cluster._component_logs.close()

    def stop_api_server(self):
        self.kill("cluster")
        self.connection.process.kill()
        self.connection.close()
        self._core.hub.stop()

    def backup(self):
        """The log as it is now."""
        return dict(self._log._rows), self._log.floor

    async def restart(self, pause_seconds=1.0, backup=None):
        """Restart the API server, with the state of a backup if there is one."""
        self.stop_api_server()
        await asyncio.sleep(pause_seconds + 0.1)
        if backup is not None:
            self._log = SlowLog()
            self._log._rows, self._log.floor = dict(backup[0]), backup[1]
            self.kill("controllers")
        await self.start_api_server()
        self.start_cluster()
        if backup is not None:
            self.start_controllers()

    async def get(self, resource, name, namespace="default"):
        try:
            return await self.client.get(resource, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    async def workloads(self):
        return (await self.client.list(resources.WORKLOAD, "default")).items


class Fleet:
    def __init__(self, seed, directory, *, workers, configuration, worker_configuration, rates=None):
        self.seed = seed
        self.directory = directory
        self.random = random.Random(f"{seed} fleet")
        self.loop = SimulationLoop(random.Random(f"{seed} order"), window=self.random.choice((1, 2, 8)))  # type: ignore[abstract] # without I/O
        self.clock = VirtualClock(self.loop)
        self.trace = Trace(self.loop)
        self.faults = Faults(random.Random(f"{seed} faults"), self.trace, rates or FaultRates())
        self.controllers = {}
        self.violations = []
        self.on_start = lambda _cluster_name, _pod: None
        self._configuration = configuration
        base = {"integrations": {"frameworks": FRAMEWORKS}}
        self.manager = SimulatedCluster("manager", self, base | configuration)
        self.workers = {name: SimulatedCluster(name, self, base | worker_configuration) for name in workers}
        self.links = {}

    def __getitem__(self, name):
        return self.workers[name]

    async def connect(self, process, document):
        name = document["clusters"][0]["cluster"]["server"].removeprefix("https://")
        client = FaultyClient(process, self.workers[name].connection, self.faults)
        await self.links[name].cross()
        return LinkedClient(client, self.links[name])

    # Running

    async def start(self, *, cpu="4", manager_cpu=None):
        for name, worker in self.workers.items():
            self.links[name] = Link()
            await worker.start()
            await make_queues(worker.client, cpu)
        await self.manager.start()
        await self.set_up_manager()
        total = manager_cpu or str(int(cpu) * len(self.workers))
        await make_queues(self.manager.client, total, checks=["multikueue"])
        await self.until(self.are_connected)

    async def set_up_manager(self):
        client = self.manager.client
        for name in self.workers:
            await client.create(resources.SECRET, kubeconfig_secret(name), "kueue-system")
            source = {"kubeConfig": {"location": f"{name}-secret", "locationType": "Secret"}}
            await client.create(
                resources.MULTI_KUEUE_CLUSTER, {"metadata": {"name": name}, "spec": {"clusterSource": source}}
            )
        await client.create(
            resources.MULTI_KUEUE_CONFIG, {"metadata": {"name": "config"}, "spec": {"clusters": list(self.workers)}}
        )
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "config"}
        spec = {"controllerName": MULTI_KUEUE, "parameters": parameters}
        await client.create(resources.ADMISSION_CHECK, {"metadata": {"name": "multikueue"}, "spec": spec})

    async def are_connected(self):
        clusters = (await self.manager.client.list(resources.MULTI_KUEUE_CLUSTER)).items
        return all(conditions.is_true(cluster, "Active") for cluster in clusters)

    async def until(self, question, *arguments, seconds=300):
        """Ask again until the answer is yes, in virtual time."""
        deadline = self.clock.now_ns() + seconds * SECOND_NS
        while self.clock.now_ns() < deadline:
            answer = await question(*arguments)
            if answer:
                return answer
            await asyncio.sleep(STEP_SECONDS)
        raise AssertionError(f"not so after {seconds} s: {getattr(question, '__name__', question)}{arguments}")

    async def workload_of(self, name, kind="Job"):
        for workload in await self.manager.workloads():
            if any((owner["kind"], owner["name"]) == (kind, name) for owner in objects.owner_references(workload)):
                return workload
        return None

    async def check_of(self, name, kind="Job"):
        workload = await self.workload_of(name, kind)
        states = objects.nested_list(workload or {}, "status", "admissionChecks")
        return states[0] if states else {}

    async def cluster_of(self, name, kind="Job"):
        return objects.status(await self.workload_of(name, kind) or {}).get("clusterName")

    async def is_finished(self, name, resource=resources.JOB):
        return conditions.is_true(await self.manager.get(resource, name) or {}, "Complete")

    async def copies(self, name, kind="Job"):
        """The workers that have a copy of the Workload."""
        workload = await self.workload_of(name, kind)
        if workload is None:
            return []
        return [
            worker.name
            for worker in self.workers.values()
            if await worker.get(resources.WORKLOAD, objects.name(workload)) is not None
        ]


def kubeconfig(name):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "default-cluster", "user": "u"}}],
        "clusters": [{"name": "default-cluster", "cluster": {"server": f"https://{name}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }


def kubeconfig_secret(name, document=None):
    text = yaml.safe_dump(document or kubeconfig(name))
    data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
    return {"metadata": {"name": f"{name}-secret"}, "data": data}


async def make_queues(client, cpu, *, checks=()):
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    await client.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "default"}})
    await client.create(resources.CLUSTER_QUEUE, {"metadata": {"name": "queue"}, "spec": spec})
    await client.create(
        resources.LOCAL_QUEUE, {"metadata": {"name": "queue"}, "spec": {"clusterQueue": "queue"}}, "default"
    )
    for name, value in (("high", 1000), ("low", 10)):
        await client.create(resources.WORKLOAD_PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})


def template(seconds, cpu):
    container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": cpu}}}
    pod = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1}
    return {"metadata": {"annotations": {RUNTIME: seconds}}, "spec": pod}


def job(name, *, seconds="5", cpu="1", priority="", **spec):
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    return {"metadata": {"name": name, "labels": labels}, "spec": {"template": template(seconds, cpu), **spec}}


class _Errors(logging.Handler):
    """Keeps what was logged as an error that is not one of the network or the API."""

    def __init__(self, violations):
        super().__init__(level=logging.ERROR)
        self._violations = violations

    def emit(self, record):
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, OSError | ApiError | asyncio.CancelledError):
            self._violations.append(self.format(record))


@contextmanager
def _errors_are(violations):
    handler = _Errors(violations)
    log = logging.getLogger("pykueue")
    propagates, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagates


def play(story, *, seed=0, workers=("worker1", "worker2"), **options):
    """Run a story with a fleet that is started."""
    with tempfile.TemporaryDirectory(prefix="pykueue-fleet-") as directory:
        fleet = Fleet(
            seed,
            Path(directory),
            workers=workers,
            configuration=options.pop("configuration", {}),
            worker_configuration=options.pop("worker_configuration", {}),
            rates=options.pop("rates", None),
        )

        async def run():
            await fleet.start(**options)
            await story(fleet)

        with entropy.drawn_from(random.Random(f"{seed} entropy")), _errors_are(fleet.violations):
            try:
                fleet.loop.run_until_complete(run())
            finally:
                fleet.loop.close()
        assert fleet.violations == []
        return fleet
