"""Custom job kinds: frameworks that an administrator
describes in the Configuration (`integrations.custom`).

    - group: example.com
      version: v1
      kind: Simulation
      plural: simulations             # default: the kind in lower case + s
      suspend: spec.suspend           # default
      podSets:
      - name: main
        template: spec.template
        count: spec.workers           # default: 1
      finished: {succeeded: Complete, failed: Failed}    # condition types
      ready: Running                                      # condition type
      active: status.activePods       # a number; default: quota is released at once

Paths are dotted field names; a number in brackets chooses from a list.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from pykueue.api import conditions
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object, Resource
from pykueue.translate.jobs.framework import (
    JobFramework,
    JobOptions,
    JobResult,
    Path,
    PodSetTemplate,
    finished_by_condition,
    value_at,
)

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def path_of(text: str) -> Path:
    """Parses a path such as `spec.groups[0].template`."""
    return tuple(name or int(number) for name, number in _STEP.findall(text))


def framework(description: Mapping[str, Any]) -> JobFramework:
    group, kind = str(description.get("group", "")), str(description["kind"])
    plural = str(description.get("plural") or f"{kind.lower()}s")
    finished: Mapping[str, Any] = description.get("finished") or {}
    return JobFramework(
        description=job_kinds.JobKind(
            name=f"{group}/{kind.lower()}",
            resource=Resource(group, str(description.get("version", "v1")), plural, kind, namespaced=True),
            suspend=tuple(str(description.get("suspend") or "spec.suspend").split(".")),
            accepts_prebuilt_workload=False,
        ),
        pod_set_templates=partial(_pod_set_templates, pod_sets=tuple(description["podSets"])),
        finished=partial(
            _finished,
            succeeded=str(finished.get("succeeded") or "Succeeded"),
            failed=str(finished.get("failed") or "Failed"),
        ),
        is_active=partial(_is_active, path=path_of(str(description.get("active") or ""))),
        pods_ready=partial(_pods_ready, condition=str(description.get("ready") or "Running")),
    )


def _pod_set_templates(
    job: Object, _options: JobOptions, *, pod_sets: tuple[Mapping[str, Any], ...]
) -> list[PodSetTemplate]:
    return [
        PodSetTemplate(
            name=str(pod_set.get("name") or "main"),
            template_path=path_of(str(pod_set["template"])),
            count=_count(job, str(pod_set.get("count") or "")),
        )
        for pod_set in pod_sets
    ]


def _count(job: Object, path: str) -> int:
    count = value_at(job, path_of(path)) if path else None
    return count if isinstance(count, int) and not isinstance(count, bool) else 1


def _finished(job: Object, *, succeeded: str, failed: str) -> JobResult | None:
    return finished_by_condition(job, succeeded, failed)


def _is_active(job: Object, *, path: Path) -> bool:
    return bool(path) and bool(value_at(job, path))


def _pods_ready(job: Object, *, condition: str) -> bool:
    return conditions.is_true(job, condition)
