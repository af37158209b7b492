"""Components of AppWrappers: whoever writes an AppWrapper must be allowed to create them.

The AppWrapper operator creates components with its own rights, so the rights of the user are
checked here, as the operator's webhook does it.
"""

from pykueue.api import errors, objects
from pykueue.api.rules import faults, reading
from pykueue.api.rules.jobs import wrapped_kinds
from pykueue.api.scheme import AdmissionRequest, Kind, Object
from pykueue.apiserver.calls import UserInfo, WriteCall
from pykueue.apiserver.security import tokens
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.kube.delegation import AccessRequest

_GROUP = "workload.codeflare.dev"


class WrappedComponents:
    """The admission plugin."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> list[str]:
        if (kind.group, kind.kind) != (_GROUP, "AppWrapper") or request.subresource:
            return []
        for index, component in enumerate(objects.nested_list(request.object, "spec", "components")):
            template = reading.mapping(component.get("template"))
            self._check(request.object, template, f"spec.components[{index}].template", call.user)
        return []

    def _check(self, wrapper: Object, template: Object, path: str, user: UserInfo) -> None:
        name, namespace = objects.name(wrapper), objects.namespace(wrapper)
        resource = wrapped_kinds.resource_of(template)
        if resource is None:
            fault = faults.not_supported(f"{path}.kind", reading.text(template.get("kind")), wrapped_kinds.NAMES)
            raise errors.invalid(_GROUP, "AppWrapper", name, [fault])
        metadata = template.get("metadata", {})
        if not isinstance(metadata, dict):
            raise errors.invalid(_GROUP, "AppWrapper", name, [faults.required(f"{path}.metadata")])
        if metadata.get("namespace", namespace) != namespace:
            fault = faults.forbidden(f"{path}.metadata.namespace", f"components are created in namespace {namespace}")
            raise errors.invalid(_GROUP, "AppWrapper", name, [fault])
        access = AccessRequest(verb="create", group=resource.group, resource=resource.plural, namespace=namespace)
        if tokens.MASTERS not in user.groups and not self._authorizer.allows(user, access):
            raise errors.forbidden(_GROUP, "appwrappers", name, f"{path}: {access.refusal(user.name)}")
