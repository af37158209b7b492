"""The plugins that apply to every writer, in the order of Kubernetes."""

from pykueue.apiserver.admission import AdmissionPlugin
from pykueue.apiserver.context import Context
from pykueue.apiserver.plugins.pod_security import PodSecurityAdmission
from pykueue.apiserver.plugins.resource_quota import QuotaUsage, ResourceQuotas
from pykueue.apiserver.plugins.unenforced_kinds import UnenforcedKinds


def policies(context: Context) -> list[AdmissionPlugin]:
    return [PodSecurityAdmission(), UnenforcedKinds(), ResourceQuotas(QuotaUsage(context.store, context.clock))]
