"""Single pods and pod groups. In Python: `api.rules.jobs.pod`."""

from pykueue.api.labels import (
    ADMISSION_GATE,
    MANAGED,
    POD_GROUP_NAME,
    POD_GROUP_TOTAL_COUNT,
    PREBUILT_WORKLOAD_NAME,
    RETRIABLE_IN_GROUP,
)
from pykueue.api.rules.jobs import job_kinds, pod
from pykueue.api.scheme import Settings
from pykueue.install.validations import cel, table, topology
from pykueue.install.validations import generic as jobs
from pykueue.install.validations.table import IS_UPDATE, Table, Validation, Variable

_COUNT = POD_GROUP_TOTAL_COUNT
_IS_GATED = f"object.spec.?schedulingGates.orValue([]).exists(gate, gate.name == '{ADMISSION_GATE}')"
_KEYS = "{0}.metadata.?{1}.orValue({{}}).exists(key, key.startsWith('kueue.x-k8s.io/'))"
_OF_KUEUE = " || ".join(_KEYS.format("object", kind) for kind in ("labels", "annotations"))
_WAS_OF_KUEUE = " || ".join(_KEYS.format("oldObject", kind) for kind in ("labels", "annotations"))
HAS_KUEUE_METADATA = ("concerned", f"{_OF_KUEUE} || (oldObject != null && ({_WAS_OF_KUEUE}))")
"""Matches pods that have, or had, a label or annotation of Kueue."""


def of_pods(settings: Settings) -> Table:
    suspension = jobs.Suspension(now=_IS_GATED, before=_IS_GATED)
    rules = [
        *table.under(f"!({IS_UPDATE})", jobs.of_creation(job_kinds.POD, settings)),
        *jobs.of_update(job_kinds.POD, settings),
        *_group(),
        *topology.of_each_template(settings),
    ]
    template = topology.annotated("variables.annotations", "1")
    named = (
        *jobs.variables(settings, suspension),
        Variable(name="group", cel=_group_name(settings, table.label, table.annotation)),
        Variable(name="oldGroup", cel=_group_name(settings, table.old_label, table.old_annotation)),
        topology.variable(f"[{template}]"),
    )
    return Table(variables=named, validations=tuple(rules), conditions=(HAS_KUEUE_METADATA,))


def _group_name(settings: Settings, label: table.Entry, annotation: table.Entry) -> str:
    from_label, from_annotation = label(POD_GROUP_NAME), annotation(POD_GROUP_NAME)
    if not jobs.is_on(settings, "WorkloadIdentifierAnnotations"):
        return from_label
    return f"{from_annotation} != '' ? {from_annotation} : {from_label}"


def _group() -> list[Validation]:
    count, has_count = table.annotation(_COUNT), f"'{_COUNT}' in variables.annotations"
    retriable = (
        f"{table.annotation(RETRIABLE_IN_GROUP)} != 'false' && {table.old_annotation(RETRIABLE_IN_GROUP)} == 'false'"
    )
    return [
        Validation(
            when=f"'{MANAGED}' in variables.labels",
            cel=f"{table.label(MANAGED)} == 'true'",
            message=f"metadata.labels[{MANAGED}]: {pod.MANAGED_IS_TRUE_ONLY}",
        ),
        Validation(
            cel=f"({has_count}) == (variables.group != '')",
            message=f"both the '{_COUNT}' annotation and the '{POD_GROUP_NAME}' label or annotation should be set",
        ),
        Validation(
            when="variables.group != ''",
            cel=cel.is_dns_subdomain("variables.group"),
            message=f"{POD_GROUP_NAME} must be a lowercase RFC 1123 subdomain",
        ),
        Validation(
            when=f"{has_count} && variables.group != ''",
            cel=cel.is_positive_number(count),
            message=f"metadata.annotations[{_COUNT}]: group total count should be greater than zero",
        ),
        Validation(
            when="variables.group != '' && variables.prebuilt != ''",
            cel="variables.group == variables.prebuilt",
            message=f"{PREBUILT_WORKLOAD_NAME}: {pod.GROUP_IS_PREBUILT_WORKLOAD}",
        ),
        Validation(
            when=f"{IS_UPDATE} && variables.group != ''",
            cel=f"!({retriable})",
            message=f"metadata.annotations[{RETRIABLE_IN_GROUP}]: {pod.UNRETRIABLE_STAYS}",
        ),
        Validation(
            when=f"{IS_UPDATE} && variables.oldGroup != ''",
            cel="variables.group == variables.oldGroup",
            message=f"{POD_GROUP_NAME}: field is immutable",
        ),
    ]
