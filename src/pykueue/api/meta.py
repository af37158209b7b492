"""Types of the metadata and of parts that many kinds have: conditions, label selectors."""

from typing import Annotated, Literal

from pykueue.api.structural import Part, about

DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

Int32 = Annotated[int, about(format="int32")]
Int64 = Annotated[int, about(format="int64")]
Time = Annotated[str, about(format="date-time")]
Quantity = Annotated[str | int | float, about(pattern=QUANTITY)]
"""A quantity as it is written; `api.quantity.parse` reads it."""
Resources = dict[str, Quantity]


class OwnerReference(Part):
    """An object that this one belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Part):
    """Name, labels and the bookkeeping of the API server."""

    name: str = ""
    namespace: str = ""
    generate_name: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Condition(Part):
    """One observed aspect of an object's state."""

    type: Annotated[
        str, about("What is observed, in CamelCase or as a qualified name.", max_length=316, pattern=QUALIFIED_NAME)
    ]
    status: Annotated[Literal["True", "False", "Unknown"], about("Whether it holds.")]
    reason: Annotated[
        str,
        about(
            "One word, for programs, on why the status last changed.",
            min_length=1,
            max_length=1024,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ]
    message: Annotated[str, about("The same, for people; may be empty.", max_length=32768)]
    last_transition_time: Annotated[Time, about("When the status last changed.")]
    observed_generation: Annotated[
        Int64 | None, about("The metadata.generation from which the status was computed.", minimum=0)
    ] = None


class LabelSelectorRequirement(Part):
    """A label key, an operator and values."""

    key: Annotated[str, about("Label key.")]
    operator: Annotated[str, about("In, NotIn, Exists or DoesNotExist.")]
    values: Annotated[tuple[str, ...], about("Values for In and NotIn; empty for the others.", list_type="atomic")] = ()


class LabelSelector(Part):
    """Selects objects by label; all requirements must hold, and an empty one selects all."""

    match_labels: Annotated[dict[str, str] | None, about("Labels that must have exactly these values.")] = None
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], about("Further requirements.", list_type="atomic")
    ] = ()
