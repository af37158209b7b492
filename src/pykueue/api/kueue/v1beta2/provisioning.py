"""ProvisioningRequestConfig: parameters of the check that asks an autoscaler for nodes first."""

from typing import Annotated, Literal

import msgspec

from pykueue.api.meta import DNS_SUBDOMAIN, QUALIFIED_NAME, Int32, ObjectMeta
from pykueue.api.structural import Part, about


class ProvisioningRequestRetryStrategy(Part):
    """How often a failed request is retried."""

    backoff_limit_count: Annotated[Int32, about("Most retries.")] = 3
    backoff_base_seconds: Annotated[Int32, about("Wait before the first retry; doubled each time.")] = 60
    backoff_max_seconds: Annotated[Int32, about("Longest wait.")] = 1800


class NodeSelectorUpdate(Part):
    """A node selector taken from the answer of the autoscaler."""

    key: Annotated[str, about("Node label.", min_length=1, max_length=317, pattern=QUALIFIED_NAME)]
    value_from_provisioning_class_detail: Annotated[
        str, about("Detail of the request whose value is used.", min_length=1, max_length=32768)
    ]


class ProvisioningRequestPodSetUpdates(Part):
    """What is added to the pods after provisioning."""

    node_selector: Annotated[
        tuple[NodeSelectorUpdate, ...], about("Node selectors to add.", max_items=8, list_map_keys=("key",))
    ] = ()


class ProvisioningRequestConfigSpec(Part):
    """The ProvisioningRequests that are created."""

    provisioning_class_name: Annotated[
        str, about("Way of provisioning to ask for.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)
    ]
    parameters: Annotated[
        dict[str, Annotated[str, about(max_length=255)]] | None,
        about("Passed on to the autoscaler.", max_properties=100),
    ] = None
    managed_resources: Annotated[
        tuple[str, ...],
        about(
            "Only pod sets that ask for one of these are provisioned; none means all.", max_items=100, list_type="set"
        ),
    ] = ()
    retry_strategy: Annotated[
        ProvisioningRequestRetryStrategy,
        about(
            "What happens after a failure.",
            default={"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800},
        ),
    ] = msgspec.field(default_factory=ProvisioningRequestRetryStrategy)
    pod_set_updates: ProvisioningRequestPodSetUpdates | None = None
    pod_set_merge_policy: Annotated[
        Literal["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"] | None,
        about("Which pod sets are asked for together."),
    ] = None


class ProvisioningRequestConfig(Part):
    """Parameters of a provisioning admission check."""

    metadata: ObjectMeta
    spec: ProvisioningRequestConfigSpec
