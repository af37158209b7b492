"""Content negotiation: the form of the response that the Accept header requests.

Responses are JSON or YAML. A client that accepts protobuf gets JSON, which Go clients can read
too. A client that accepts neither gets 406.
"""

import msgspec

from pykueue.api import errors, text_cache

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
STREAM = ";stream=watch"

_JSON_TYPES = ("*/*", "application/*", JSON, PROTOBUF)
_YAML_TYPES = (YAML, "application/x-yaml", "text/yaml")
_TRANSFORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_SUPPORTED = f"{JSON}, {YAML}, {PROTOBUF}"


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """`transform` is "", Table, PartialObjectMetadata or PartialObjectMetadataList."""

    media: str = JSON
    transform: str = ""
    transform_version: str = "v1"
    discovery_version: str = ""
    """The version of aggregated discovery that the client reads, if any."""

    @property
    def content_type(self) -> str:
        if self.discovery_version:
            return f"{JSON};g=apidiscovery.k8s.io;v={self.discovery_version};as=APIGroupDiscoveryList"
        return self.media


class Clause(msgspec.Struct, frozen=True):
    media: str
    parameters: dict[str, str]


@text_cache.cached(1024)
def clauses(header: str) -> tuple[Clause, ...]:
    """The clauses of an Accept header, sorted by quality."""
    parsed = []
    for text in header.split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        pairs = (part.partition("=") for part in rest)
        parsed.append(Clause(media.lower(), {name.strip().lower(): value.strip() for name, _, value in pairs}))
    return tuple(sorted(parsed, key=lambda clause: -_quality(clause)))


def _quality(clause: Clause) -> float:
    try:
        return float(clause.parameters.get("q", "1"))
    except ValueError:
        return 0.0


@text_cache.cached(1024)
def form(accept: str) -> Form:
    """The first clause that can be served; ApiError 406 if there is none."""
    for clause in clauses(accept or "*/*"):
        media = JSON if clause.media in _JSON_TYPES else YAML if clause.media in _YAML_TYPES else ""
        if not media:
            continue
        transform = clause.parameters.get("as", "")
        if not transform:
            return Form(media=media)
        if clause.parameters.get("g") == "meta.k8s.io" and transform in _TRANSFORMS:
            return Form(media=media, transform=transform, transform_version=clause.parameters.get("v", "v1"))
    raise not_acceptable()


def check_plain(accept: str) -> None:
    """ApiError 406 if the client accepts only tables: computed answers have none."""
    if (
        not any(
            clause.media in (*_JSON_TYPES, *_YAML_TYPES) and "as" not in clause.parameters
            for clause in clauses(accept or "*/*")
        )
        and form(accept).transform
    ):
        raise not_acceptable()


@text_cache.cached(1024)
def discovery_form(accept: str) -> Form:
    for clause in clauses(accept or "*/*"):
        parameters = clause.parameters
        if clause.media not in _JSON_TYPES:
            continue
        if not parameters.get("as"):
            return Form()
        is_aggregated = parameters["as"] == "APIGroupDiscoveryList" and parameters.get("g") == "apidiscovery.k8s.io"
        if is_aggregated and parameters.get("v") in ("v2", "v2beta1"):
            return Form(discovery_version=parameters["v"])
    raise not_acceptable()


def not_acceptable() -> errors.ApiError:
    return errors.ApiError(
        406, "NotAcceptable", f"only the following media types are accepted: {_SUPPORTED}, {JSON}{STREAM}"
    )
