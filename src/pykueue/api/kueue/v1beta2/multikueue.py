"""MultiKueueCluster and MultiKueueConfig: other clusters to which workloads are dispatched."""

from typing import Annotated, Literal

import msgspec

from pykueue.api.cel.rules import Rule
from pykueue.api.kueue.v1beta2.fields import UNIQUE, Conditions
from pykueue.api.meta import ObjectMeta
from pykueue.api.structural import Part, about


class KubeConfig(Part):
    """Where the kubeconfig of the worker cluster is kept."""

    location: Annotated[str, about("Name of a Secret in our own namespace, or a path.", min_length=1, max_length=256)]
    location_type: Annotated[Literal["Secret", "Path"], about("What the location is.")] = "Secret"


class ClusterProfileReference(Part):
    """A ClusterProfile that describes the worker cluster."""

    name: Annotated[str, about("Name of the ClusterProfile.", min_length=1, max_length=256)]


class ClusterSource(Part):
    """How to reach the worker cluster: one of the two."""

    rules = (
        Rule(
            cel="[has(self.kubeConfig),has(self.clusterProfileRef)].filter(x,x==true).size() == 1",
            message="exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
            check=lambda own, _: ("kubeConfig" in own) != ("clusterProfileRef" in own),
        ),
    )
    kube_config: KubeConfig | None = None
    cluster_profile_ref: ClusterProfileReference | None = None


class MultiKueueClusterSpec(Part):
    """The worker cluster."""

    cluster_source: ClusterSource


class MultiKueueClusterStatus(Part):
    """Whether it can be reached."""

    conditions: Conditions = ()


class MultiKueueCluster(Part):
    """A worker cluster."""

    metadata: ObjectMeta
    spec: MultiKueueClusterSpec
    status: MultiKueueClusterStatus = msgspec.field(default_factory=MultiKueueClusterStatus)


class MultiKueueConfigSpec(Part):
    """The worker clusters of one admission check."""

    clusters: Annotated[
        tuple[Annotated[str, about(max_length=256)], ...],
        about(
            "MultiKueueClusters, in the order in which they are tried.",
            min_items=1,
            max_items=20,
            list_type="atomic",
            rules=(UNIQUE,),
        ),
    ]
    quota_management: Annotated[
        Literal["Manual", "Automated"] | None, about("Who sets the quotas of the manager's queues.")
    ] = None


class MultiKueueConfig(Part):
    """Parameters of a MultiKueue admission check."""

    metadata: ObjectMeta
    spec: MultiKueueConfigSpec
