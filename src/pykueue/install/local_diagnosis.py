"""What can be wrong with `pykueue up`: nodes, queues, settings, and jobs that cannot start.

Pure: `pykueue doctor` collects the `LocalFacts` and prints the findings.
"""

from collections.abc import Iterator

import msgspec

from pykueue.api import conditions, labels, objects
from pykueue.api.scheme import Object
from pykueue.install.diagnosis import Finding


class LocalFacts(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    nodes: tuple[Object, ...] = ()
    cluster_queues: tuple[Object, ...] = ()
    local_queues: tuple[Object, ...] = ()
    flavors: frozenset[str] | None = None
    """The names of the ResourceFlavors; None if they were not read."""
    limits: tuple[str, ...] = ()
    """Settings of the Configuration without effect."""
    stuck_jobs: tuple[tuple[str, str], ...] = ()
    """What lets jobs start that cannot start as things are, and why they cannot."""


def findings(facts: LocalFacts) -> Iterator[Finding]:
    yield Finding(subject="api", is_good=True, detail=f"pykueue up, Kubernetes {facts.version}")
    yield _runtime(facts)
    yield from _nodes(facts)
    yield from _queues(facts)
    if facts.limits:
        repair = "remove them from the Configuration; docs/compatibility.md lists what acts"
        yield Finding(subject="settings", is_good=False, detail="without effect:", names=facts.limits, repair=repair)
    yield from _jobs(facts)


def _runtime(facts: LocalFacts) -> Finding:
    runtimes = sorted({objects.annotations(node).get(labels.CREATED_BY_RUNTIME, "") for node in facts.nodes} - {""})
    if not facts.nodes:
        detail = "there are no nodes, so no pod can run"
        return Finding(subject="runtime", is_good=False, detail=detail, repair="pykueue up --runtime process")
    return Finding(subject="runtime", is_good=True, detail=", ".join(runtimes) or "nodes of your own")


def _nodes(facts: LocalFacts) -> Iterator[Finding]:
    names = {objects.name(node): node for node in facts.nodes}
    unready = tuple(name for name, node in names.items() if not conditions.is_true(node, "Ready"))
    cordoned = tuple(name for name, node in names.items() if objects.spec(node).get("unschedulable"))
    if unready:
        repair = "start `pykueue up` again, or delete what is no machine any more: kubectl delete node "
        repair += " ".join(unready[:3])
        yield Finding(subject="nodes", is_good=False, detail="not ready:", names=unready, repair=repair)
    if cordoned:
        repair = "kubectl uncordon " + " ".join(cordoned[:3])
        yield Finding(subject="nodes", is_good=False, detail="cordoned:", names=cordoned, repair=repair)
    if names and not unready and not cordoned:
        yield Finding(subject="nodes", is_good=True, detail=f"{len(names)} ready")


def _queues(facts: LocalFacts) -> Iterator[Finding]:
    if not facts.local_queues:
        detail = "there are none yet; `pykueue create` makes a resourceflavor, clusterqueue and localqueue"
        yield Finding(subject="queues", is_good=True, detail=detail)
    for kind, queues in (("clusterqueue", facts.cluster_queues), ("localqueue", facts.local_queues)):
        inactive = [queue for queue in queues if not conditions.is_true(queue, "Active")]
        if queues and not inactive:
            yield Finding(subject="queues", is_good=True, detail=f"{kind}s: {len(queues)} active")
        for queue in inactive:
            message = (conditions.find(queue, "Active") or {}).get("message") or "not reconciled yet"
            detail = f"{kind} {objects.name(queue)} is not active: {message}"
            yield Finding(subject="queues", is_good=False, detail=detail, repair=_queue_repair(facts, kind, queue))


def _queue_repair(facts: LocalFacts, kind: str, queue: Object) -> str:
    """The command that makes a queue active; several if it has several faults."""
    place = f" --namespace {objects.namespace(queue)}" if objects.namespace(queue) else ""
    commands = []
    if objects.spec(queue).get("stopPolicy", "None") != "None":
        commands.append(f"pykueue resume {kind} {objects.name(queue)}{place}")
    if kind == "clusterqueue" and facts.flavors is not None:
        commands += [f"pykueue create resourceflavor {name}" for name in _missing_flavors(facts.flavors, queue)]
    if kind == "localqueue":
        target = objects.spec(queue).get("clusterQueue", "")
        if target not in map(objects.name, facts.cluster_queues):
            commands.append(f"pykueue create clusterqueue {target} --nominal-quota FLAVOR:cpu=4")
        elif not commands:
            return f"repair clusterqueue {target}"
    return " && ".join(commands) or f"kubectl describe {kind} {objects.name(queue)}{place}"


def _missing_flavors(existing: frozenset[str], queue: Object) -> list[str]:
    groups = objects.nested_list(queue, "spec", "resourceGroups")
    names = [flavor["name"] for group in groups for flavor in group.get("flavors") or ()]
    return sorted(set(names) - existing)


def _jobs(facts: LocalFacts) -> Iterator[Finding]:
    if not facts.stuck_jobs:
        yield Finding(subject="jobs", is_good=True, detail="every job that waits can start one day")
    for command, why in facts.stuck_jobs:
        yield Finding(subject="jobs", is_good=False, detail=why, repair=command)
