"""Cohort: what its webhook refuses."""

from pykueue.api.rules import quota, reading
from pykueue.api.scheme import Request, Verdict


def validate(request: Request) -> Verdict:
    spec = reading.mapping(request.object.get("spec"))
    parent = quota.Parent(noun="parent", is_named=bool(spec.get("parentName")), may_lend_above_nominal=True)
    found = [*quota.check_fair_sharing(spec), *quota.check_resource_groups(spec, parent)]
    return Verdict(denied=tuple(found), webhook="vcohort.kb.io")
