"""Types and rules that several kinds share: names, quotas, fair sharing, tolerations."""

from typing import Annotated, Literal

from pykueue.api.cel.rules import Rule, every
from pykueue.api.meta import DNS_LABEL, DNS_SUBDOMAIN, Condition, Int64, Quantity, Time
from pykueue.api.structural import Part, about

Name = Annotated[str, about(max_length=253, pattern=DNS_SUBDOMAIN)]
PodSetName = Annotated[str, about(max_length=63, pattern=DNS_LABEL)]
CheckName = Annotated[str, about(min_length=1, max_length=316)]
StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
Conditions = Annotated[
    tuple[Condition, ...], about("What is currently known of this object.", max_items=16, list_map_keys=("type",))
]

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

IMMUTABLE = Rule(cel="self == oldSelf", message="field is immutable", check=lambda new, old: bool(new == old))
UNIQUE = Rule(
    cel="size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0",
    message="must be unique",
    check=lambda items, _: all(item not in items[:index] for index, item in enumerate(items)),
)


class ResourceQuota(Part):
    """How much of one resource a queue or cohort has in one flavor."""

    name: Annotated[str, about("Resource, such as cpu, memory or nvidia.com/gpu.")]
    nominal_quota: Annotated[Quantity, about("Amount that is always available here.")]
    borrowing_limit: Annotated[
        Quantity | None, about("Most that may be used above the nominal quota; absent: no limit. Needs a cohort.")
    ] = None
    lending_limit: Annotated[
        Quantity | None, about("Most of the nominal quota that the cohort may use; absent: all of it. Needs a cohort.")
    ] = None


class FlavorQuotas(Part):
    """The quotas of one flavor."""

    name: Annotated[Name, about("ResourceFlavor.")]
    resources: Annotated[
        tuple[ResourceQuota, ...],
        about(
            "One entry for each covered resource, in the same order.",
            min_items=1,
            max_items=64,
            list_map_keys=("name",),
        ),
    ]


class ResourceGroup(Part):
    """Resources that are assigned together, and their flavors in order of preference."""

    rules = (
        Rule(
            cel="self.flavors.all(x, size(x.resources) == size(self.coveredResources))",
            message="flavors must have the same number of resources as the coveredResources",
            check=lambda group, _: every(
                group["flavors"], lambda flavor: len(flavor["resources"]) == len(group["coveredResources"])
            ),
        ),
    )
    covered_resources: Annotated[
        tuple[str, ...],
        about(
            "Resources of this group; a resource belongs to one group only.",
            min_items=1,
            max_items=64,
            list_type="atomic",
        ),
    ]
    flavors: Annotated[
        tuple[FlavorQuotas, ...],
        about("Flavors in the order in which they are tried.", min_items=1, max_items=64, list_map_keys=("name",)),
    ]


ResourceGroups = Annotated[tuple[ResourceGroup, ...], about(max_items=16, list_type="atomic")]


class FairSharing(Part):
    """The weight of this queue or cohort in fair sharing."""

    weight: Annotated[
        Quantity, about("Share relative to siblings; 0 means: may only use what nobody else wants.", default=1)
    ] = 1


class FairSharingStatus(Part):
    """The current share, for fair sharing."""

    weighted_share: Annotated[
        Int64, about("Largest borrowed fraction over all resources, in thousandths, divided by the weight.")
    ]


class AdmissionFairSharingStatus(Part):
    """Past usage of a local queue, which decays with time."""

    consumed_resources: Annotated[dict[str, Quantity], about("Decayed usage for each resource.")]
    last_update: Annotated[Time, about("When the usage was last computed.")]


class LocalQueueFairSharingStatus(FairSharingStatus):
    admission_fair_sharing_status: Annotated[
        AdmissionFairSharingStatus | None, about("Past usage, for admission fair sharing.")
    ] = None


class Toleration(Part):
    """Lets a pod onto nodes with a matching taint."""

    key: Annotated[str | None, about("Taint key; absent matches every key, and then the operator is Exists.")] = None
    operator: Annotated[str | None, about("Equal (when absent) or Exists.")] = None
    value: Annotated[str | None, about("Taint value; absent when the operator is Exists.")] = None
    effect: Annotated[str | None, about("Taint effect; absent matches every effect.")] = None
    toleration_seconds: Annotated[Int64 | None, about("How long a NoExecute taint is tolerated; absent: for ever.")] = (
        None
    )


class Taint(Part):
    """Keeps pods that do not tolerate it off a node."""

    key: Annotated[str, about("Taint key.")]
    effect: Annotated[str, about("NoSchedule, PreferNoSchedule or NoExecute.")]
    value: Annotated[str | None, about("Taint value.")] = None
    time_added: Annotated[Time | None, about("When the taint was added.")] = None


TAINT_EFFECTS = Rule(
    cel="self.all(x, x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
    message="supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
    check=lambda taints, _: every(taints, lambda taint: taint["effect"] in EFFECTS),
)
TOLERATION_RULES = (
    Rule(
        cel="self.all(x, !has(x.key) ? x.operator == 'Exists' : true)",
        message="operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
        check=lambda items, _: every(items, lambda item: "key" in item or item["operator"] == "Exists"),
    ),
    Rule(
        cel="self.all(x, has(x.tolerationSeconds) ? x.effect == 'NoExecute' : true)",
        message="effect must be 'NoExecute' when 'tolerationSeconds' is set",
        check=lambda items, _: every(
            items, lambda item: "tolerationSeconds" not in item or item["effect"] == "NoExecute"
        ),
    ),
    Rule(
        cel="self.all(x, !has(x.operator) || x.operator in ['Equal', 'Exists'])",
        message="supported toleration values: 'Equal'(default), 'Exists'",
        check=lambda items, _: every(
            items, lambda item: "operator" not in item or item["operator"] in ("Equal", "Exists")
        ),
    ),
    Rule(
        cel="self.all(x, has(x.operator) && x.operator == 'Exists' ? !has(x.value) : true)",
        message="a value must be empty when 'operator' is 'Exists'",
        check=lambda items, _: every(items, lambda item: item.get("operator") != "Exists" or "value" not in item),
    ),
    Rule(
        cel="self.all(x, !has(x.effect) || x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
        message="supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
        check=lambda items, _: every(items, lambda item: "effect" not in item or item["effect"] in EFFECTS),
    ),
)
Tolerations = Annotated[tuple[Toleration, ...], about(max_items=8, list_type="atomic", rules=TOLERATION_RULES)]
