"""What an object asks for and pykueue does not do: warnings for the client that writes it.

`controllers.unsupported` writes the same words into a condition of the object. For the ConfigMap
of the Configuration the warnings are those of `api.configuration`.
"""

from pykueue.api.rules import reading
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

NO_VARIANTS = "pykueue tries one flavor at a time, so spec.concurrentAdmissionPolicy has no effect"


def limit_of(obj: Object) -> str:
    """What pykueue does not do with the object; "" if there is nothing."""
    kind, spec = obj.get("kind"), reading.mapping(obj.get("spec"))
    if kind == "ClusterQueue" and spec.get("concurrentAdmissionPolicy") is not None:
        return NO_VARIANTS
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
