"""The plugins that apply to every writer, in the order of Kubernetes."""

from pykueue.apiserver.admission import AdmissionPlugin
from pykueue.apiserver.plugins.pod_security import PodSecurityAdmission
from pykueue.apiserver.plugins.resource_quota import QuotaUsage, ResourceQuotas
from pykueue.apiserver.plugins.unenforced_kinds import UnenforcedKinds


def policies(usage: QuotaUsage) -> list[AdmissionPlugin]:
    return [PodSecurityAdmission(), UnenforcedKinds(), ResourceQuotas(usage)]
