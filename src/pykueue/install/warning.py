"""What Kueue's webhooks merely warn of, as policies that warn. In Python: the warnings of `api.rules`."""

from pykueue.api import registry
from pykueue.api.kueue.kinds import GROUP, STORAGE_VERSION
from pykueue.api.rules.jobs import frameworks, pod
from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.api.scheme import Object, Settings
from pykueue.install import admission_policies, managed_kinds
from pykueue.install.admission_policies import Subject

_WRITES = ("CREATE", "UPDATE")


def of_workloads() -> list[Object]:
    kinds = {(kind.group, kind.version, kind.kind): kind for kind in registry.scheme()}
    rule = {
        "expression": "object.?spec.?podSets.orValue([]).all(p, p.?topologyRequest.?subGroupCount.orValue(0) >= 0)",
        "message": "spec.podSets: a negative topologyRequest.subGroupCount is deprecated and will be rejected in a future release",
    }
    subject = Subject(resource=kinds[GROUP, STORAGE_VERSION, "Workload"].resource, operations=_WRITES)
    return admission_policies.validating("warn-of-workloads", subject, [rule], only_warns=True)


def of_framework(framework: Framework, settings: Settings) -> list[Object]:
    if framework != frameworks.POD:
        return []
    is_marked = f"object.metadata.?labels[?'{pod.MANAGED}'].orValue('') == 'true'"
    is_looked_at = f"oldObject == null || !('{pod.SUSPENDING_PARENT}' in object.metadata.?annotations.orValue({{}}))"
    conditions = (("marked", is_marked), ("lookedAt", is_looked_at))
    rule = {"expression": f"!({managed_kinds.owned(settings)})", "message": pod.OWNER_IS_MANAGED}
    subject = Subject(resource=framework.resource, operations=_WRITES, conditions=conditions)
    return admission_policies.validating("warn-of-pods", subject, [rule], only_warns=True)
