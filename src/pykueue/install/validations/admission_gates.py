"""The annotation `kueue.x-k8s.io/admission-gated-by` of jobs and Workloads.

In Python: `api.rules.admission_gates`.
"""

from pykueue.api import feature_gates
from pykueue.api.labels import ADMISSION_GATED_BY
from pykueue.api.rules import admission_gates
from pykueue.api.scheme import Settings
from pykueue.install.validations import cel, table
from pykueue.install.validations.table import IS_UPDATE, Validation, Variable

_PATH = f"metadata.annotations[{ADMISSION_GATED_BY}]"


def _names(value: str) -> str:
    return f"{value}.trim() == '' ? [] : {value}.split(',').map(name, name.trim())"


def variables(settings: Settings) -> tuple[Variable, ...]:
    if not _are_on(settings):
        return ()
    return (
        Variable(name="gates", cel=_names(table.annotation(ADMISSION_GATED_BY))),
        Variable(name="oldGates", cel=_names(table.old_annotation(ADMISSION_GATED_BY))),
    )


def validations(settings: Settings) -> list[Validation]:
    if not _are_on(settings):
        return []
    now, before = (get(ADMISSION_GATED_BY) for get in (table.annotation, table.old_annotation))
    return [
        Validation(
            cel=f"variables.gates.all(name, {cel.is_domain_prefixed_path('name')})",
            message=f"{_PATH} must be a list of domain-prefixed paths (such as acme.io/foo) of at most 63 bytes",
        ),
        Validation(cel=cel.has_no_duplicates("variables.gates"), message=f"{_PATH}: duplicate gate name"),
        Validation(
            when=f"{IS_UPDATE} && {now} != ''",
            cel=f"{before} != ''",
            message=f"{_PATH}: {admission_gates.GATE_ADDED}",
        ),
        Validation(
            when=f"{IS_UPDATE} && {now} != '' && {before} != ''",
            cel="variables.gates.all(name, name in variables.oldGates)",
            message=f"{_PATH}: {admission_gates.ONLY_REMOVABLE}",
        ),
    ]


def _are_on(settings: Settings) -> bool:
    return feature_gates.is_enabled(settings.feature_gates, "AdmissionGatedBy")
