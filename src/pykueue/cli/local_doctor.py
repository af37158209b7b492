"""`pykueue doctor` on the API of `pykueue up`: collects what `install.local_diagnosis` judges."""

from typing import TYPE_CHECKING, Any

from pykueue.api import conditions, objects, resources

if TYPE_CHECKING:
    from pykueue.api.scheme import Object, Resource
    from pykueue.install.local_diagnosis import LocalFacts
    from pykueue.kube.client import Client

_MOST_EXPLAINED = 100
_STUCK_STATES = ("in no queue", "not queued", "unschedulable", "failing to start")
_NEVER = "It can never start"
_INACTIVE = " is not active: "


async def is_local(client: "Client") -> bool:
    """Whether this is `pykueue up` with its own controllers, which serve `/configz`."""
    from pykueue.app import running_configuration

    version = await client.raw("GET", "/version")
    return "+pykueue" in version.get("gitVersion", "") and await running_configuration.is_served(client)


async def facts(client: "Client") -> "LocalFacts":
    from pykueue.api.configuration import effects
    from pykueue.app import running_configuration
    from pykueue.install.local_diagnosis import LocalFacts

    version: dict[str, Any] = await client.raw("GET", "/version")
    configuration = await running_configuration.find(client)
    return LocalFacts(
        version=version["gitVersion"],
        nodes=await _list(client, resources.NODE),
        cluster_queues=await _list(client, resources.CLUSTER_QUEUE),
        local_queues=await _list(client, resources.LOCAL_QUEUE),
        limits=tuple(map(str, effects.limits_of(dict(configuration)))),
        stuck_jobs=await _stuck_jobs(client),
    )


async def _list(client: "Client", resource: "Resource") -> "tuple[Object, ...]":
    return tuple((await client.list(resource)).items)


async def _stuck_jobs(client: "Client") -> tuple[tuple[str, str], ...]:
    """The jobs that cannot start, of those that wait; the first hundred are explained."""
    from pykueue.api.errors import ApiError
    from pykueue.cli import explain

    stuck: list[tuple[str, str]] = []
    waiting = [workload for workload in await _list(client, resources.WORKLOAD) if _waits(workload)]
    for workload in waiting[:_MOST_EXPLAINED]:
        namespace, name = objects.namespace(workload), objects.name(workload)
        try:
            explanation = await explain.ask(client, namespace, name)
        except ApiError:
            continue
        never = next((line for line in explanation["lines"] if line.startswith(_NEVER) or _INACTIVE in line), "")
        if never or explanation["state"] in _STUCK_STATES:
            why = f"{explanation['job']}: {never}" if never else explanation["summary"]
            stuck.append((f"pykueue explain {name} --namespace {namespace}", why))
    return tuple(stuck)


def _waits(workload: "Object") -> bool:
    return not conditions.is_true(workload, "Finished") and not conditions.is_true(workload, "PodsReady")
