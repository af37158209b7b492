"""`pykueue doctor` on the API of `pykueue up`: collects what `install.local_diagnosis` judges."""

from typing import TYPE_CHECKING, Any

from pykueue.api import conditions, objects, resources

if TYPE_CHECKING:
    from pykueue.api.scheme import Object, Resource
    from pykueue.install.local_diagnosis import LocalFacts
    from pykueue.kube.client import Client

_MOST_EXPLAINED = 100
_REMEDY = "  - "


async def is_local(client: "Client") -> bool:
    """Whether this is `pykueue up` with its own controllers, which serve `/configz`."""
    from pykueue.app import running_configuration

    version = await client.raw("GET", "/version")
    return is_embedded(version) and await running_configuration.is_served(client)


def is_embedded(version: dict[str, Any]) -> bool:
    """Whether `/version` is that of `pykueue up`, with or without controllers."""
    return "+pykueue" in version.get("gitVersion", "")


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
        flavors=frozenset(map(objects.name, await _list(client, resources.RESOURCE_FLAVOR))),
        limits=tuple(map(str, effects.limits_of(dict(configuration)))),
        stuck_jobs=await _stuck_jobs(client),
    )


async def _list(client: "Client", resource: "Resource") -> "tuple[Object, ...]":
    return tuple((await client.list(resource)).items)


async def _stuck_jobs(client: "Client") -> tuple[tuple[str, str], ...]:
    """Jobs that cannot start, as repair and reason; the first hundred that wait are explained."""
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
        why = explain.why_stuck(explanation)
        if why:
            subject = "" if why == explanation["summary"] else f"{explanation['job']}: "
            stuck.append((_repair(explanation, name, namespace), f"{subject}{why}"))
    return tuple(stuck)


def _repair(explanation: "Object", name: str, namespace: str) -> str:
    """The remedies of the explanation, which were tried; without any, the job can only go."""
    remedies = [line.removeprefix(_REMEDY) for line in explanation["lines"] if line.startswith(_REMEDY)]
    if remedies:
        return "; or ".join(remedies)
    return f"change the job and submit it again, after `pykueue delete workload {name} --namespace {namespace}`"


def _waits(workload: "Object") -> bool:
    return not conditions.is_true(workload, "Finished") and not conditions.is_true(workload, "PodsReady")
