"""The parts of the Configuration that the workload and job controllers obey, as plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsReadyPolicy:
    """waitForPodsReady: how long pods may take, and how a Workload that took too long is queued again."""

    timeout_ns: int
    recovery_timeout_ns: int | None = None
    block_admission: bool = False
    backoff_limit_count: int | None = None
    backoff_base_seconds: int = 60
    backoff_max_seconds: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecyclePolicy:
    pods_ready: PodsReadyPolicy | None = None
    retain_finished_ns: int | None = None
    retain_deactivated_ns: int | None = None
    finish_orphans: bool = True
    admission_gates: bool = True
