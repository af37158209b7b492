"""Leader election by a Lease: one replica leads; another takes over when it stops renewing.

The Lease has the form that Kubernetes' own components write. A leader that cannot renew within its
deadline stops leading before another one may take over.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pykueue.api import entropy, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, micro_from_ns
from pykueue.kube.client import Client, get_or_none
from pykueue.kube.clock import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """client-go's leaseDuration, renewDeadline and retryPeriod."""

    lease_seconds: float = 15
    renew_seconds: float = 10
    retry_seconds: float = 2


class LeaderElector:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming | None = None,
    ) -> None:
        self.is_leader = False
        self.must_expire = False
        """Set by a leader that stops while a write of its may still take effect: the lease is not
        released, so that the next leader reads what was written."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._timing = timing or LeaseTiming()
        self._observed: tuple[Any, ...] = ()
        self._observed_ns = 0
        """When this process first observed the lease in its present state."""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait to lead; run `lead` until it ends or the lease is lost; then release the lease."""
        await self._acquire()
        log.info("%s leads by lease %s/%s", self._identity, self._namespace, self._name)
        self.is_leader, self.must_expire = True, False
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.create_task(self._renew_until_lost())
        try:
            await asyncio.wait([leading, renewing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.is_leader = False
            for task in (leading, renewing):
                task.cancel()
            results = await asyncio.gather(leading, renewing, return_exceptions=True)
            if not self.must_expire:
                await self._release()
        if self.must_expire:
            await self._clock.sleep(self._timing.lease_seconds)
        if isinstance(results[0], Exception):
            raise results[0]

    async def _acquire(self) -> None:
        while not await self._try_acquire():
            await self._clock.sleep(self._timing.retry_seconds * entropy.uniform(1.0, 1.2))

    async def _renew_until_lost(self) -> None:
        renewed_ns = self._clock.now_ns()
        while self._clock.now_ns() - renewed_ns < self._timing.renew_seconds * SECOND_NS:
            await self._clock.sleep(self._timing.retry_seconds)
            if await self._try_acquire():
                renewed_ns = self._clock.now_ns()
        log.warning("%s lost lease %s/%s", self._identity, self._namespace, self._name)

    async def _try_acquire(self) -> bool:
        """Acquire or renew the lease; False if that was not possible."""
        try:
            return await self._acquire_or_renew()
        except (ApiError, OSError) as error:
            is_race = isinstance(error, ApiError) and error.code == 409
            level = logging.DEBUG if is_race else logging.WARNING
            log.log(level, "lease %s/%s: %s", self._namespace, self._name, error)
            return False

    async def _acquire_or_renew(self) -> bool:
        now_ns = self._clock.now_ns()
        lease = await get_or_none(self._client, resources.LEASE, self._name, self._namespace)
        if lease is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            await self._client.create(resources.LEASE, {"metadata": metadata, "spec": self._claim({}, now_ns)})
            return True
        spec = lease.get("spec") or {}
        if not self._may_acquire(spec, now_ns):
            return False
        await self._client.update(resources.LEASE, {**lease, "spec": self._claim(spec, now_ns)})
        return True

    def _may_acquire(self, spec: dict[str, Any], now_ns: int) -> bool:
        """Whether the lease is ours, free, or expired by our own clock."""
        observed = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if observed != self._observed:
            self._observed, self._observed_ns = observed, now_ns
        holder = spec.get("holderIdentity")
        if not holder or holder == self._identity:
            return True
        duration_ns = int(spec.get("leaseDurationSeconds") or self._timing.lease_seconds) * SECOND_NS
        return now_ns - self._observed_ns >= duration_ns

    def _claim(self, spec: dict[str, Any], now_ns: int) -> dict[str, Any]:
        is_ours = spec.get("holderIdentity") == self._identity
        now = micro_from_ns(now_ns)
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timing.lease_seconds),
            "acquireTime": spec.get("acquireTime", now) if is_ours else now,
            "renewTime": now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if is_ours or not spec else 1),
        }

    async def _release(self) -> None:
        """Release the lease, so that the next leader need not wait for its end."""
        with contextlib.suppress(ApiError, OSError):
            lease: Object = await self._client.get(resources.LEASE, self._name, self._namespace)
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") == self._identity:
                await self._client.update(
                    resources.LEASE, {**lease, "spec": {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}}
                )
