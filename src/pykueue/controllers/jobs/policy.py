"""The parts of the Configuration that job controllers obey."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pykueue.api import selectors
from pykueue.translate.jobs.framework import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPolicy:
    manage_jobs_without_queue_name: bool = False
    namespace_selector: Mapping[str, Any] | None = None
    """managedJobsNamespaceSelector; None manages every namespace."""
    label_keys_to_copy: tuple[str, ...] = ()
    waits_for_pods_ready: bool = True
    retain_deactivated_ns: int | None = None
    finish_orphans: bool = True
    slices_workloads: bool = True
    """Whether elastic jobs grow and shrink while they run (ElasticJobsViaWorkloadSlices)."""
    options: Options = field(default_factory=Options)

    def manages(self, namespace_labels: Mapping[str, str]) -> bool:
        requirements = selectors.from_object(self.namespace_selector)
        return requirements is None or selectors.matches(requirements, namespace_labels)
