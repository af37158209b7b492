"""ResourceFlavor: a variety of resources, found on nodes with certain labels and taints."""

from typing import Annotated, Any

import msgspec

from pykueue.api.cel.rules import Rule
from pykueue.api.kueue.v1beta2.fields import TAINT_EFFECTS, Name, Taint, Tolerations
from pykueue.api.meta import ObjectMeta
from pykueue.api.structural import Part, about


def _unchanged(field: str) -> Any:
    return lambda new, old: (
        "topologyName" not in old or ((field in new) == (field in old) and new.get(field) == old.get(field))
    )


class ResourceFlavorSpec(Part):
    """The nodes of this flavor."""

    rules = (
        Rule(
            cel="!has(self.topologyName) || self.nodeLabels.size() >= 1",
            message="at least one nodeLabel is required when topology is set",
            check=lambda own, _: "topologyName" not in own or len(own["nodeLabels"]) >= 1,
        ),
        Rule(
            cel=(
                "!has(oldSelf.topologyName) || (has(self.nodeLabels) == has(oldSelf.nodeLabels) && "
                "(!has(self.nodeLabels) || self.nodeLabels == oldSelf.nodeLabels))"
            ),
            message="nodeLabels are immutable when topologyName is set",
            check=_unchanged("nodeLabels"),
        ),
        Rule(
            cel=(
                "!has(oldSelf.topologyName) || (has(self.tolerations) == has(oldSelf.tolerations) && "
                "(!has(self.tolerations) || self.tolerations == oldSelf.tolerations))"
            ),
            message="tolerations are immutable when topologyName is set",
            check=_unchanged("tolerations"),
        ),
        Rule(
            cel="!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
            message="topologyName is immutable when topologyName is set",
            check=_unchanged("topologyName"),
        ),
    )
    node_labels: Annotated[
        dict[str, str] | None,
        about("Labels of its nodes; added as node selector to admitted pods.", max_properties=8, map_type="atomic"),
    ] = None
    node_taints: Annotated[
        tuple[Taint, ...],
        about(
            "Taints of its nodes, which workloads must tolerate.",
            max_items=8,
            list_type="atomic",
            rules=(TAINT_EFFECTS,),
        ),
    ] = ()
    tolerations: Annotated[Tolerations, about("Tolerations added to admitted pods.")] = ()
    topology_name: Annotated[Name | None, about("Topology in which pods of this flavor are placed.")] = None


class ResourceFlavor(Part):
    """A variety of resources, such as spot nodes or one model of GPU."""

    metadata: ObjectMeta
    spec: ResourceFlavorSpec = msgspec.field(default_factory=ResourceFlavorSpec)
