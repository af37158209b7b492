"""Topology: the levels of a data centre, as node labels."""

from typing import Annotated, Any

from pykueue.api.cel.rules import Rule
from pykueue.api.kueue.v1beta2.fields import IMMUTABLE, UNIQUE
from pykueue.api.meta import QUALIFIED_NAME, ObjectMeta
from pykueue.api.structural import Part, about

HOSTNAME = "kubernetes.io/hostname"


def _hostname_is_last(levels: list[dict[str, Any]], _: object) -> bool:
    labels = [level["nodeLabel"] for level in levels]
    return HOSTNAME not in labels or labels[-1] == HOSTNAME


class TopologyLevel(Part):
    """One level, such as a block or a rack."""

    node_label: Annotated[
        str, about("Node label whose value names the domain.", min_length=1, max_length=316, pattern=QUALIFIED_NAME)
    ]


class TopologySpec(Part):
    """The levels of the topology, the widest first."""

    levels: Annotated[
        tuple[TopologyLevel, ...],
        about(
            "Levels from the widest to the narrowest.",
            min_items=1,
            max_items=16,
            list_type="atomic",
            rules=(
                IMMUTABLE,
                UNIQUE,
                Rule(
                    cel=(
                        "size(self.filter(i, i.nodeLabel == 'kubernetes.io/hostname')) == 0 || "
                        "self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'"
                    ),
                    message="the kubernetes.io/hostname label can only be used at the lowest level of topology",
                    check=_hostname_is_last,
                ),
            ),
        ),
    ]


class Topology(Part):
    """How nodes are grouped, so that pods that talk to each other are placed close together."""

    metadata: ObjectMeta
    spec: TopologySpec
