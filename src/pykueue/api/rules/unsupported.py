"""What the Configuration asks for and pykueue does not do: warnings for the client that writes it.

The warnings are those of `api.configuration`.
"""

from pykueue.api.scheme import AdmissionRequest, ValidationResult


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
