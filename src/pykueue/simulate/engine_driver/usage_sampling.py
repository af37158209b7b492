"""Admission fair sharing in a simulation: samples the usage of LocalQueues at their interval."""

from typing import Self

from pykueue.engine import events
from pykueue.engine.engine import Engine
from pykueue.engine.policy import AdmissionFairSharing
from pykueue.engine.quota.admission_fair_sharing import decayed
from pykueue.translate.local_queue_usage import admitted_usage


class UsageSampling:
    def __init__(self, engine: Engine, config: AdmissionFairSharing, now_ns: int) -> None:
        self._engine = engine
        self._config = config
        self.due_ns = now_ns + config.sampling_interval_ns

    @classmethod
    def of(cls, engine: Engine, now_ns: int) -> Self | None:
        """None without admission fair sharing."""
        config = engine.view.policy.admission_fair_sharing
        return None if config is None else cls(engine, config, now_ns)

    def sample(self, at_ns: int) -> None:
        interval_ns = self._config.sampling_interval_ns
        for queue in self._engine.view.local_queues():
            before = self._engine.view.consumed(queue.key)
            consumed = {}
            if self._config.half_life_ns:
                used = admitted_usage(self._engine.view, queue.key)
                consumed = decayed(before, used, interval_ns, self._config.half_life_ns)
            self._engine.handle(events.LocalQueueUsageSampled(at_ns=at_ns, key=queue.key, consumed=consumed))
        self.due_ns = at_ns + interval_ns
