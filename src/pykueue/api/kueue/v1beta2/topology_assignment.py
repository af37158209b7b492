"""TopologyAssignment: the topology domains of a pod set, in a compact form."""

from typing import Annotated

from pykueue.api.cel.rules import Rule, every
from pykueue.api.meta import Int32
from pykueue.api.structural import Part, about

Value = Annotated[str, about(max_length=63)]


class IndividualValues(Part):
    """One value for each domain: prefix + root + suffix."""

    roots: Annotated[
        tuple[Value, ...],
        about("The differing middle of each value.", min_items=1, max_items=100000, list_type="atomic"),
    ]
    prefix: Annotated[Value | None, about("What all values begin with.")] = None
    suffix: Annotated[Value | None, about("What all values end with.")] = None


class LevelValues(Part):
    """The values of one level: the same for all domains, or one for each."""

    rules = (
        Rule(
            cel="has(self.universal) != has(self.individual)",
            message="exactly one of the fields in [universal individual] must be set",
            check=lambda own, _: ("universal" in own) != ("individual" in own),
        ),
    )
    universal: Annotated[Value | None, about("The value of every domain.")] = None
    individual: Annotated[IndividualValues | None, about("A value for each domain.")] = None


class PodCounts(Part):
    """Pods in each domain: the same number everywhere, or one number for each."""

    rules = (
        Rule(
            cel="[has(self.universal),has(self.individual)].filter(x,x==true).size() == 1",
            message="exactly one of the fields in [universal individual] must be set",
            check=lambda own, _: ("universal" in own) != ("individual" in own),
        ),
    )
    universal: Annotated[Int32 | None, about("Pods in every domain.", minimum=1)] = None
    individual: Annotated[
        tuple[Annotated[Int32, about(minimum=1)], ...],
        about("Pods in each domain.", min_items=1, max_items=100000, list_type="atomic"),
    ] = ()


class TopologyAssignmentSlice(Part):
    """Some domains of the assignment."""

    rules = (
        Rule(
            cel="!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
            message="podCounts.individual must have length equal to domainCount",
            check=lambda own, _: (
                "individual" not in own["podCounts"] or len(own["podCounts"]["individual"]) == own["domainCount"]
            ),
        ),
        Rule(
            cel="self.valuesPerLevel.all(x, !has(x.individual) || size(x.individual.roots) == self.domainCount)",
            message=(
                "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this "
                "TopologyAssignmentSlice"
            ),
            check=lambda own, _: every(
                own["valuesPerLevel"],
                lambda level: "individual" not in level or len(level["individual"]["roots"]) == own["domainCount"],
            ),
        ),
    )
    domain_count: Annotated[Int32, about("Domains in this slice.", minimum=1)]
    values_per_level: Annotated[
        tuple[LevelValues, ...],
        about("Values for each level of the assignment.", min_items=1, max_items=16, list_type="atomic"),
    ]
    pod_counts: PodCounts


class TopologyAssignment(Part):
    """The topology domains of a pod set, and how many pods go into each."""

    rules = (
        Rule(
            cel="self.slices.all(x, size(x.valuesPerLevel) == size(self.levels))",
            message="valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
            check=lambda own, _: every(own["slices"], lambda part: len(part["valuesPerLevel"]) == len(own["levels"])),
        ),
    )
    levels: Annotated[
        tuple[Annotated[str, about(max_length=317)], ...],
        about("Node labels of the levels, widest first.", min_items=1, max_items=16, list_type="atomic"),
    ]
    slices: Annotated[
        tuple[TopologyAssignmentSlice, ...], about("The domains, in slices.", max_items=1000, list_type="atomic")
    ]
