"""What an object asks for and pykueue does not do: warnings for the client that writes it.

`controllers.unsupported` writes the same words into a condition of the object. For the ConfigMap
of the Configuration the warnings are those of `api.configuration`.
"""

from pykueue.api.rules import reading
from pykueue.api.rules.jobs import management
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

NO_DISPATCH = "pykueue does not dispatch workloads to other clusters, so MultiKueue has no effect"
_MULTI_KUEUE_KINDS = ("MultiKueueCluster", "MultiKueueConfig")


def limit_of(obj: Object) -> str:
    """What pykueue does not do with the object; "" if there is nothing."""
    kind, spec = obj.get("kind"), reading.mapping(obj.get("spec"))
    if kind in _MULTI_KUEUE_KINDS:
        return NO_DISPATCH
    if kind == "AdmissionCheck" and spec.get("controllerName") == management.MULTI_KUEUE:
        return NO_DISPATCH
    return ""


def warn(request: AdmissionRequest) -> ValidationResult:
    limit = limit_of(request.object)
    if not limit or request.subresource or limit_of(request.old or {}):
        return ValidationResult()
    return ValidationResult(warnings=(limit,))


def warn_of_configuration(request: AdmissionRequest) -> ValidationResult:
    from pykueue.api.configuration import effects, loading, sources

    if not sources.is_config_map({**request.object, "kind": "ConfigMap"}):
        return ValidationResult()
    source = sources.find({**request.object, "kind": "ConfigMap"})
    faults = loading.find_faults(source) if source else []
    if source is None or faults:
        return ValidationResult(warnings=tuple(f"the Configuration is not used: {fault}" for fault in faults))
    limits = effects.limits_of(loading.complete(source.configuration).document)
    return ValidationResult(warnings=tuple(map(str, limits)))
