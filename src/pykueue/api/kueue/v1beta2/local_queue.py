"""LocalQueue: the queue of a namespace, which points to a ClusterQueue."""

from typing import Annotated

import msgspec

from pykueue.api.kueue.v1beta2.fields import (
    IMMUTABLE,
    Conditions,
    FairSharing,
    LocalQueueFairSharingStatus,
    Name,
    StopPolicy,
)
from pykueue.api.meta import Int32, ObjectMeta, Quantity
from pykueue.api.structural import ABSENT, Part, about


class LocalQueueSpec(Part):
    """The ClusterQueue to which workloads are submitted, and the policies of this queue."""

    cluster_queue: Annotated[Name | None, about("ClusterQueue that serves this queue.", rules=(IMMUTABLE,))] = None
    stop_policy: Annotated[
        StopPolicy, about("Hold admits nothing new; HoldAndDrain also evicts what was admitted.")
    ] = "None"
    fair_sharing: Annotated[FairSharing | None, about("Weight in admission fair sharing.")] = None


class LocalQueueResourceUsage(Part):
    """Usage of one resource."""

    name: Annotated[str, about("Resource.")]
    total: Annotated[Quantity | None, about("Amount in use.")] = None


class LocalQueueFlavorUsage(Part):
    """Usage of one flavor."""

    name: Annotated[Name, about("ResourceFlavor.")]
    resources: Annotated[
        tuple[LocalQueueResourceUsage, ...], about("Use of each resource.", max_items=64, list_map_keys=("name",))
    ]


FlavorsUsage = Annotated[tuple[LocalQueueFlavorUsage, ...], about(max_items=64, list_map_keys=("name",))]


class LocalQueueStatus(Part):
    """The observed usage of the queue."""

    conditions: Conditions = ()
    pending_workloads: Annotated[Int32, about("Workloads that wait.", default=ABSENT)] = 0
    reserving_workloads: Annotated[Int32, about("Workloads that have quota reserved.", default=ABSENT)] = 0
    admitted_workloads: Annotated[Int32, about("Workloads that are admitted and not finished.", default=ABSENT)] = 0
    flavors_reservation: Annotated[FlavorsUsage, about("Use by workloads that have quota reserved.")] = ()
    flavors_usage: Annotated[FlavorsUsage, about("Use by workloads that are admitted.")] = ()
    fair_sharing: Annotated[LocalQueueFairSharingStatus | None, about("Share in use.")] = None


class LocalQueue(Part):
    """A queue in a namespace; jobs name it in their queue-name label."""

    metadata: ObjectMeta
    spec: LocalQueueSpec = msgspec.field(default_factory=LocalQueueSpec)
    status: LocalQueueStatus = msgspec.field(default_factory=LocalQueueStatus)
