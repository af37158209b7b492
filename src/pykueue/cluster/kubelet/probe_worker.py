"""Attends to one running container: its postStart hook, then its startup probe, then liveness and readiness until it ends.

Started by the pod's agent for every container that has any of these.
"""

import asyncio
from collections.abc import Awaitable, Callable

from pykueue.api.scheme import Object
from pykueue.cluster.kubelet import probes
from pykueue.cluster.kubelet.probes import LIVENESS, POST_START, READINESS, STARTUP, Answers, Probe
from pykueue.kube.clock import Clock

Ask = Callable[[Object], Awaitable[str]]
"""Carries out a handler; answers with what was wrong, "" if nothing was."""
Tell = Callable[[str, bool | None, str], None]
"""Which probe (or `postStart`), the verdict (None: not decided yet), and what was wrong."""


class ProbeWorker:
    def __init__(self, container: Object, clock: Clock, ask: Ask, tell: Tell, *, is_up: bool = False) -> None:
        """`is_up`: it had started before, when somebody else looked after it."""
        self._container = container
        self._clock = clock
        self._ask = ask
        self._tell = tell
        self._is_up = is_up

    async def run(self) -> None:
        if not self._is_up and not await self._has_come_up():
            return
        await asyncio.gather(*(self._keep_asking(kind) for kind in (LIVENESS, READINESS)))

    async def _has_come_up(self) -> bool:
        handler = probes.hook(self._container, POST_START)
        if handler is not None:
            fault = await self._ask(handler)
            self._tell(POST_START, not fault, fault)
            if fault:
                return False
        startup = probes.of(self._container, STARTUP)
        is_good = True if startup is None else await self._verdict(startup)
        if startup is None:
            self._tell(STARTUP, True, "")  # noqa: FBT003 - the verdict
        return is_good

    async def _verdict(self, probe: Probe) -> bool:
        """The first one."""
        answers = Answers(probe)
        await self._clock.sleep(probe.delay_seconds)
        while (verdict := await self._asked(answers)) is None:
            await self._clock.sleep(probe.period_seconds)
        return verdict

    async def _keep_asking(self, kind: str) -> None:
        probe = probes.of(self._container, kind)
        if probe is None:
            return
        answers = Answers(probe)
        await self._clock.sleep(probe.delay_seconds)
        while True:
            verdict = await self._asked(answers)
            if verdict is False and kind in probes.DEADLY:
                return
            await self._clock.sleep(probe.period_seconds)

    async def _asked(self, answers: Answers) -> bool | None:
        probe = answers.probe
        try:
            fault = await asyncio.wait_for(self._ask(probe.handler), probe.timeout_seconds)
        except TimeoutError:
            fault = f"timed out after {probe.timeout_seconds:g}s"
        verdict = answers.add(is_good=not fault)
        if verdict is not None or fault:
            self._tell(probe.kind, verdict, fault)
        return verdict
