"""Which form of the answer a client wants, from its Accept header; and the form its body is in.

Everything is JSON inside. A client that would take protobuf gets JSON, which Go clients read by the Content-Type of the
answer; one that takes nothing that we speak gets 406.
"""

import functools

import msgspec

from pykueue.api import errors

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
STREAM = ";stream=watch"

_READS_JSON = ("*/*", "application/*", JSON, PROTOBUF)
_READS_YAML = (YAML, "application/x-yaml", "text/yaml")
_TRANSFORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_SPOKEN = f"{JSON}, {YAML}, {PROTOBUF}"


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """`transform` is "", Table, PartialObjectMetadata or PartialObjectMetadataList."""

    media: str = JSON
    transform: str = ""
    transform_version: str = "v1"
    discovery_version: str = ""
    """Set when the client reads aggregated discovery of this version."""

    @property
    def content_type(self) -> str:
        if self.discovery_version:
            return f"{JSON};g=apidiscovery.k8s.io;v={self.discovery_version};as=APIGroupDiscoveryList"
        return self.media


class Clause(msgspec.Struct, frozen=True):
    media: str
    parameters: dict[str, str]


@functools.lru_cache(maxsize=1024)
def clauses(header: str) -> tuple[Clause, ...]:
    """The clauses of an Accept header, the most wanted first."""
    found = []
    for text in header.split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        pairs = (part.partition("=") for part in rest)
        found.append(Clause(media.lower(), {name.strip().lower(): value.strip() for name, _, value in pairs}))
    return tuple(sorted(found, key=lambda clause: -_quality(clause)))


def _quality(clause: Clause) -> float:
    try:
        return float(clause.parameters.get("q", "1"))
    except ValueError:
        return 0.0


@functools.lru_cache(maxsize=1024)
def form(accept: str) -> Form:
    """The first clause that we can serve; raises 406 when there is none."""
    for clause in clauses(accept or "*/*"):
        media = JSON if clause.media in _READS_JSON else YAML if clause.media in _READS_YAML else ""
        if not media:
            continue
        wanted = clause.parameters.get("as", "")
        if not wanted:
            return Form(media=media)
        if clause.parameters.get("g") == "meta.k8s.io" and wanted in _TRANSFORMS:
            return Form(media=media, transform=wanted, transform_version=clause.parameters.get("v", "v1"))
    raise not_acceptable()


@functools.lru_cache(maxsize=1024)
def discovery_form(accept: str) -> Form:
    for clause in clauses(accept or "*/*"):
        parameters = clause.parameters
        if clause.media not in _READS_JSON:
            continue
        if not parameters.get("as"):
            return Form()
        is_aggregated = parameters["as"] == "APIGroupDiscoveryList" and parameters.get("g") == "apidiscovery.k8s.io"
        if is_aggregated and parameters.get("v") in ("v2", "v2beta1"):
            return Form(discovery_version=parameters["v"])
    raise not_acceptable()


def not_acceptable() -> errors.ApiError:
    return errors.ApiError(
        406, "NotAcceptable", f"only the following media types are accepted: {_SPOKEN}, {JSON}{STREAM}"
    )
