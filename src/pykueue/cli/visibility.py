"""The visibility API of the embedded server: who waits in a queue, and in which place. Registered by `cli.parts`."""

from pykueue.api import errors
from pykueue.api.scheme import Object
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.http.hooks import Call, ExtraGroup, ExtraResource, Reply
from pykueue.cli.configured_controllers import ConfiguredControllers
from pykueue.controllers import kinds
from pykueue.engine import values
from pykueue.translate import pending_report

_VERSIONS = ("v1beta1", "v1beta2")
_RESOURCES = (
    ExtraResource(
        name="clusterqueues/pendingworkloads", kind="PendingWorkloadsSummary", namespaced=False, verbs=("get",)
    ),
    ExtraResource(name="localqueues/pendingworkloads", kind="PendingWorkloadsSummary", namespaced=True, verbs=("get",)),
)


def register(api: EmbeddedApi, controllers: ConfiguredControllers) -> None:
    def find(key: values.WorkloadKey) -> Object | None:
        namespace, _, name = key.partition("/")
        return controllers.mirror.get(kinds.WORKLOAD, name, namespace)

    async def handler(call: Call) -> Reply:
        world, route = controllers.scheduler.engine.world, call.route
        if route.plural == "localqueues":
            items = pending_report.of_local_queue(world, route.namespace, route.name, find)
        else:
            items = pending_report.of_cluster_queue(world, route.name, find)
        return Reply(
            body=pending_report.summary(
                items,
                version=route.version,
                offset=_number(call, "offset", 0),
                limit=_number(call, "limit", pending_report.DEFAULT_LIMIT),
            )
        )

    for version in _VERSIONS:
        group = ExtraGroup(group=pending_report.GROUP, version=version, resources=_RESOURCES, handler=handler)
        api.hooks.add_group(group)


def _number(call: Call, name: str, default: int) -> int:
    text = call.query.get(name) or str(default)
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f"{name} must be a number, not {text!r}") from None
