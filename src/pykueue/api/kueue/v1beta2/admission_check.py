"""AdmissionCheck: a condition, besides quota, for the admission of workloads."""

from typing import Annotated

import msgspec

from pykueue.api.kueue.v1beta2.fields import IMMUTABLE, Conditions
from pykueue.api.meta import DNS_LABEL, DNS_SUBDOMAIN, ObjectMeta
from pykueue.api.structural import Part, about


class AdmissionCheckParametersReference(Part):
    """The object with the check's parameters."""

    api_group: Annotated[str, about("API group of the object.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
    kind: Annotated[
        str, about("Kind of the object.", min_length=1, max_length=63, pattern="^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$")
    ]
    name: Annotated[str, about("Name of the object.", min_length=1, max_length=63, pattern=DNS_LABEL)]


class AdmissionCheckSpec(Part):
    """The controller of the check, and its parameters."""

    controller_name: Annotated[
        str,
        about("Controller that answers this check; not a pod name.", min_length=1, max_length=253, rules=(IMMUTABLE,)),
    ]
    parameters: AdmissionCheckParametersReference | None = None


class AdmissionCheckStatus(Part):
    """Whether the check can be used."""

    conditions: Conditions = ()


class AdmissionCheck(Part):
    """A check that a controller answers for each workload after quota is reserved."""

    metadata: ObjectMeta
    spec: AdmissionCheckSpec
    status: AdmissionCheckStatus = msgspec.field(default_factory=AdmissionCheckStatus)
