"""Checks a file of recorded decisions against the format in README.md, line by line.

    python tools/recorder/check.py FILE.jsonl.gz…

Prints the first fault of each line; the exit code is 1 if there is one.
"""

import gzip
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

Key = Annotated[str, msgspec.Meta(pattern="^[^/]*/[^/]+$")]
"""namespace/name of a Workload."""
Text = Annotated[str, msgspec.Meta(min_length=1)]
Queues = dict[str, list[Key]]
"""Workloads by ClusterQueue."""


class Metadata(msgspec.Struct, rename="camel"):
    name: Text
    namespace: str = ""
    uid: str = ""


class Manifest(msgspec.Struct, rename="camel"):
    """A Kubernetes object; fields that are not named here are allowed."""

    api_version: Text
    kind: Text
    metadata: Metadata


class FairSharing(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    preemption_strategies: list[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]]


class Config(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    fair_sharing: FairSharing | None
    feature_gates: dict[str, bool]
    wait_for_pods_ready: None


class TimelineEntry(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    at_cycle: Annotated[int, msgspec.Meta(ge=1)]
    finish: list[Key] = []
    delete: list[Key] = []
    create: list[Manifest] = []
    update_cluster_queue: Manifest | None = None
    update_cohort: Manifest | None = None


class Scenario(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    name: Text
    config: Config
    now: datetime
    max_cycles: Annotated[int, msgspec.Meta(ge=1)]
    namespaces: list[Manifest]
    resource_flavors: list[Manifest]
    topologies: list[Manifest]
    nodes: list[Manifest]
    cohorts: list[Manifest]
    cluster_queues: list[Manifest]
    local_queues: list[Manifest]
    admission_checks: list[Manifest]
    workloads: list[Manifest]
    other_objects: list[Manifest]
    timeline: list[TimelineEntry]


class Domain(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    values: list[str]
    count: Annotated[int, msgspec.Meta(ge=1)]


class PodSetAssignment(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    name: Text
    count: Annotated[int, msgspec.Meta(ge=0)]
    flavors: dict[str, str] = {}
    resource_usage: dict[str, str] = {}
    topology_assignment: dict[str, Any] | None = None
    topology_domains: list[Domain] | None = None


class Assignment(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    cluster_queue: Text
    pod_sets: list[PodSetAssignment]


class Admission(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    workload: Key
    cluster_queue: Text
    borrows: Annotated[int, msgspec.Meta(ge=0)]
    pod_sets: list[PodSetAssignment]


class Preemption(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    workload: Key
    preemptor: Key
    reason: Literal["InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing", "InCohortFairSharing"]


class Cycle(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    cycle: Annotated[int, msgspec.Meta(ge=1)]
    time: datetime
    admissions: list[Admission]
    preemptions: list[Preemption]
    pending: Queues
    inadmissible: Queues
    idle: bool = False


class Condition(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    type: Text
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


class Final(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    assignments: dict[Key, Assignment]
    pending: Queues
    inadmissible: Queues
    usage: dict[str, dict[str, int]]
    conditions: dict[Key, list[Condition]]


class Expected(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    cycles: list[Cycle]
    converged: bool
    final: Final | None = None
    truncated_at_cycle: int | None = None


class Case(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    id: Text
    scenario: Scenario
    expected: Expected


_KINDS = {
    "namespaces": "Namespace",
    "resource_flavors": "ResourceFlavor",
    "topologies": "Topology",
    "nodes": "Node",
    "cohorts": "Cohort",
    "cluster_queues": "ClusterQueue",
    "local_queues": "LocalQueue",
    "admission_checks": "AdmissionCheck",
    "workloads": "Workload",
}
_DECODER = msgspec.json.Decoder(Case)


def fault(line: bytes) -> str:
    """What is wrong with a line; "" if nothing is."""
    try:
        case = _DECODER.decode(line)
    except msgspec.DecodeError as error:
        return str(error)
    return next((f"{case.id}: {text}" for text in _faults(case.scenario, case.expected)), "")


def _faults(scenario: Scenario, expected: Expected) -> Iterator[str]:
    for field, kind in _KINDS.items():
        for manifest in getattr(scenario, field):
            if manifest.kind != kind:
                yield f"scenario.{field} holds a {manifest.kind}"
    if expected.converged != (expected.final is not None):
        yield "expected.final must be present if and only if the scenario converged"
    numbers = [cycle.cycle for cycle in expected.cycles]
    if numbers != sorted(set(numbers)):
        yield f"expected.cycles is not in ascending order: {numbers}"
    created = [manifest for entry in scenario.timeline for manifest in entry.create]
    keys = {_key(manifest) for manifest in [*scenario.workloads, *created]}
    queues = {manifest.metadata.name for manifest in scenario.cluster_queues}
    for cycle in expected.cycles:
        for text in _cycle_faults(cycle, scenario, keys, queues):
            yield f"cycle {cycle.cycle}: {text}"


def _cycle_faults(cycle: Cycle, scenario: Scenario, keys: set[str], queues: set[str]) -> Iterator[str]:
    if cycle.time != scenario.now + timedelta(seconds=cycle.cycle - 1):
        yield "time is not now plus one second for each earlier cycle"
    if cycle.idle and (cycle.admissions or cycle.preemptions):
        yield "an idle cycle decides nothing"
    admitted = [admission.workload for admission in cycle.admissions]
    if scenario.config.fair_sharing is not None and admitted != sorted(admitted):
        yield "with fair sharing admissions are sorted by workload"
    for workload in [*admitted, *(preemption.workload for preemption in cycle.preemptions)]:
        if workload not in keys:
            yield f"{workload} is not a workload of the scenario"
    for name in cycle.pending.keys() | cycle.inadmissible.keys() | {item.cluster_queue for item in cycle.admissions}:
        if name not in queues:
            yield f"{name} is not a ClusterQueue of the scenario"
    for listed in (*cycle.pending.values(), *cycle.inadmissible.values()):
        if listed != sorted(listed):
            yield "pending and inadmissible workloads are sorted"


def _key(manifest: Manifest) -> str:
    return f"{manifest.metadata.namespace}/{manifest.metadata.name}"


def check(path: Path) -> tuple[int, list[str]]:
    """The number of lines, and the faults with their line numbers."""
    faults = []
    number = 0
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if text := fault(line):
                faults.append(f"{path}:{number}: {text}")
    return number, faults


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)  # noqa: T201 - a command prints
        return 2
    code = 0
    for name in sys.argv[1:]:
        count, faults = check(Path(name))
        for text in faults:
            print(text)  # noqa: T201 - a command prints
        print(f"{name}: {count} decisions, {len(faults)} faulty")  # noqa: T201 - a command prints
        code = 1 if faults else code
    return code


if __name__ == "__main__":
    sys.exit(main())
