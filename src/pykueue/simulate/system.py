"""Every part of pykueue as a process that can be killed and started again, on one simulation
loop.

The API server keeps its log; the machine keeps its containers; everything else is lost with its
process. Two replicas of the controllers elect a leader by a Lease. The embedded cluster shares
the API server's process, as in `pykueue up`.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from pykueue.api import registry, resources
from pykueue.api.errors import ApiError
from pykueue.api.times import SECOND_NS
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster
from pykueue.controllers import settings
from pykueue.controllers.system import Controllers
from pykueue.kube.lease import LeaderElector
from pykueue.simulate import profile as profiles
from pykueue.simulate.check_controller import CheckController
from pykueue.simulate.containers import Machine
from pykueue.simulate.event_loop import Process, SimulationLoop, VirtualClock
from pykueue.simulate.faults import ApiConnection, FaultRates, Faults, FaultyClient
from pykueue.simulate.monitor import Monitor
from pykueue.simulate.pending_reasons import PendingReasons
from pykueue.simulate.profile import Profile
from pykueue.simulate.trace import Trace

NAMESPACES = ("default", "kueue-system")
LEASE = ("kueue-system", "controllers")
_RESTART_SECONDS = 1.0
_DYING_SECONDS = 0.1
"""Until every task of a killed process has ended: nothing of it commits to the log after the next
one has read it."""

log = logging.getLogger(__name__)


class SlowLog(MemoryLog):
    """A log whose commits take time, so that writes gather in batches; it outlives the API
    server.
    """

    may_block = True


class RestartingProcess:
    """A process that is started again after it ends."""

    def __init__(self, name: str, run: Callable[[Process], Awaitable[None]], system: "System") -> None:
        self.name = name
        self.process: Process | None = None
        self._run = run
        self._system = system
        self._keeper: asyncio.Task[None] | None = None
        self._main: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._keeper = asyncio.ensure_future(self._keep_running())

    def kill(self) -> None:
        """The process dies as by SIGKILL, and stays dead until `start`."""
        if self._keeper is not None:
            self._keeper.cancel()
        if self.process is not None:
            self.process.kill()
            self.process = None

    async def stop(self) -> None:
        """The process ends as by SIGTERM: its components stop before it does."""
        if self._keeper is not None:
            self._keeper.cancel()
        if self._main is not None:
            self._main.cancel()
            await asyncio.wait([self._main])
        self.kill()

    async def _keep_running(self) -> None:
        while True:
            self.process = Process(self.name)
            self._main = self.process.spawn(_awaited(self._run(self.process)))
            try:
                await asyncio.shield(self._main)
            except (ApiError, OSError) as error:
                self._system.trace.add(f"{self.name} ended", str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, the run reports it
                self._system.monitor.report(f"{self.name} failed: {error!r}")
            self.process.kill()
            await asyncio.sleep(_RESTART_SECONDS)


async def _awaited(work: Awaitable[None]) -> None:
    await work


class System:
    """One run: everything in it is drawn from the seed.

    `directory` is for the files of the kubelet.
    """

    def __init__(
        self,
        seed: int,
        directory: Path,
        *,
        profile: Profile = profiles.PLAIN,
        rates: FaultRates | None = None,
        keeps_trace: bool = False,
    ) -> None:
        self.seed = seed
        self.profile = profile
        window = self.stream("window").choice((1, 2, 8, 1000))
        order = self.stream("order")
        self.loop = SimulationLoop(order, window=window)  # type: ignore[abstract] # without I/O
        self.trace = Trace(self.loop, keeps_all=keeps_trace)
        self.clock = VirtualClock(self.loop)
        self.faults = Faults(self.stream("faults"), self.trace, rates or FaultRates())
        self.monitor = Monitor(self.clock, self.trace)
        self.machine = Machine(self.clock, self.monitor.container_started)
        self.connection = ApiConnection()
        self.leading: dict[str, Controllers] = {}
        """The controllers that lead, by the name of their replica; more than one only by mistake.
        """
        self.pending_reasons: dict[str, PendingReasons] = {}
        """What the engines of the leaders decided last, by the name of their replica."""
        self.scheme = registry.scheme()
        self._log = SlowLog()
        self._directory = directory
        self._core: Core | None = None
        self.replicas = [RestartingProcess(f"controllers-{number}", self._run_controllers, self) for number in (1, 2)]
        self.cluster = RestartingProcess("cluster", self._run_cluster, self)
        self.check_controller = RestartingProcess("check controller", self._run_check_controller, self)
        self._electors = 0
        self._check_answers = self.stream("check answers")

    def stream(self, name: str) -> random.Random:
        """A generator of its own for each purpose, so that one more draw here changes nothing
        there.
        """
        return random.Random(f"{self.seed} {name}")  # noqa: S311 - guards nothing

    @property
    def client(self) -> LocalClient:
        """The API without faults: for the user and for checks."""
        return self.connection.local()

    @property
    def store(self) -> Store:
        assert self._core is not None
        return self._core.store

    async def start(self) -> None:
        await self.start_api_server()
        for name in NAMESPACES:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self.client.create(resources.NAMESPACE, namespace)
        self.cluster.start()
        if self.profile.checks:
            self.check_controller.start()
        for replica in self.replicas:
            replica.start()

    async def start_api_server(self) -> None:
        process = Process("api server")
        now = lambda: datetime.fromtimestamp(self.clock.now_ns() / SECOND_NS, UTC)  # noqa: E731
        admission = settings.admission_settings(self.profile.configuration)
        self._core = Core(Store(self._log), self.scheme, settings=admission, clock=now)
        await process.spawn(self._core.start())
        self.store.listeners.append(self.monitor.changed)
        self.monitor.load(self.store)
        self.connection.open(process, LocalClient(self._core, self.scheme, shows_managers=False))

    def kill_api_server(self) -> None:
        """What the log has not committed is lost, and every watch ends.

        The cluster's process is the same.
        """
        assert self._core is not None
        assert self.connection.process is not None
        self.cluster.kill()
        self.connection.process.kill()
        self.connection.close()
        self._core.hub.stop()

    async def restart_api_server(self, pause_seconds: float) -> None:
        self.trace.add("restart: api server")
        self.kill_api_server()
        await asyncio.sleep(pause_seconds + _DYING_SECONDS)
        await self.start_api_server()
        self.cluster.start()

    async def restart(self, component: RestartingProcess, pause_seconds: float) -> None:
        self.trace.add(f"restart: {component.name}")
        component.kill()
        await asyncio.sleep(pause_seconds)
        component.start()

    async def restart_politely(self, component: RestartingProcess, pause_seconds: float) -> None:
        self.trace.add(f"polite restart: {component.name}")
        await component.stop()
        await asyncio.sleep(pause_seconds)
        component.start()

    # What runs in the processes

    async def _run_controllers(self, process: Process) -> None:
        client = FaultyClient(process, self.connection, self.faults)
        namespace, name = LEASE
        elector = LeaderElector(client, self.clock, namespace=namespace, name=name, identity=self._identity(process))

        async def lead() -> None:
            self.trace.add("leads", process.name)
            self.leading[process.name] = controllers = Controllers(client, self.profile.configuration, self.clock)
            self.pending_reasons[process.name] = PendingReasons(controllers.scheduler)
            try:
                await controllers.run()
            finally:
                elector.must_expire = controllers.scheduler.has_unanswered_writes
                if self.leading.get(process.name) is controllers:
                    del self.leading[process.name]

        while True:
            await elector.run(lead)

    def _identity(self, process: Process) -> str:
        """A new one for each process, as in `pykueue controller`."""
        self._electors += 1
        return f"{process.name}_{self._electors}"

    async def _run_cluster(self, process: Process) -> None:
        client = FaultyClient(process, self.connection, self.faults, is_remote=False)
        options = ClusterOptions(runtime="simulated", directory=self._directory, nodes=self.profile.nodes)
        cluster = LocalCluster(client, self.clock, options)
        assert cluster.kubelet is not None
        cluster.kubelet.runtime = self.machine
        async with _closing_log_files(cluster):
            await cluster.start()
            await asyncio.Event().wait()

    async def _run_check_controller(self, process: Process) -> None:
        client = FaultyClient(process, self.connection, self.faults)
        await CheckController(client, self.clock, self._check_answers).run()


@asynccontextmanager
async def _closing_log_files(cluster: LocalCluster) -> AsyncIterator[None]:
    try:
        yield
    finally:
        cluster._component_logs.close()  # noqa: SLF001
