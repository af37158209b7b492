"""Cohort: quota that is shared by cluster queues and by cohorts below."""

from typing import Annotated

import msgspec

from pykueue.api.kueue.v1beta2.fields import FairSharing, FairSharingStatus, Name, ResourceGroups
from pykueue.api.meta import ObjectMeta
from pykueue.api.structural import Part, about


class CohortSpec(Part):
    """The parent cohort, and the quota of this cohort."""

    parent_name: Annotated[Name | None, about("Cohort above; absent: this is a root.")] = None
    resource_groups: Annotated[ResourceGroups, about("Quotas that every member may borrow.")] = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(Part):
    """The observed state of the cohort."""

    fair_sharing: Annotated[FairSharingStatus | None, about("Present when fair sharing is on.")] = None


class Cohort(Part):
    """A node of the tree in which quota is borrowed and lent."""

    metadata: ObjectMeta
    spec: CohortSpec = msgspec.field(default_factory=CohortSpec)
    status: CohortStatus = msgspec.field(default_factory=CohortStatus)
