"""batch/v1 Job: partial admission, synchronised completions, placement.

In Python: `api.rules.jobs.batch_job`.
"""

from pykueue.api.labels import (
    JOB_COMPLETIONS_EQUAL_PARALLELISM,
    JOB_MIN_PARALLELISM,
    POD_SET_PREFERRED_TOPOLOGY,
    POD_SET_REQUIRED_TOPOLOGY,
)
from pykueue.api.rules import workload_update
from pykueue.api.rules.jobs import batch_job, job_kinds
from pykueue.api.scheme import Settings
from pykueue.install.validations import cel, generic, table, topology
from pykueue.install.validations.table import IS_UPDATE, Table, Validation

_PARALLELISM = "object.spec.?parallelism.orValue(1)"
_COMPLETIONS = f"object.spec.?completions.orValue({_PARALLELISM})"
_COUNT = f"({_COMPLETIONS} < {_PARALLELISM} ? {_COMPLETIONS} : {_PARALLELISM})"
_LEAST, _EQUAL = JOB_MIN_PARALLELISM, JOB_COMPLETIONS_EQUAL_PARALLELISM


def of_jobs(settings: Settings) -> Table:
    templates = f"[{topology.template('object.spec.?template', _COUNT)}]"
    more = (*_partial_admission(), *_synchronised_completions(), *_elastic_placement(settings))
    return generic.plain(job_kinds.BATCH_JOB, settings, templates=templates, more=more)


def _partial_admission() -> list[Validation]:
    least, before = table.annotation(_LEAST), table.old_annotation(_LEAST)
    is_new = f"'{_LEAST}' in variables.annotations && (oldObject == null || !('{_LEAST}' in variables.oldAnnotations) || {least} != {before})"
    parallelism_before = _PARALLELISM.replace("object.", "oldObject.")
    return [
        Validation(
            when=is_new,
            cel=f"{cel.is_positive_number(least)} && {cel.number(least)} < {_COUNT}",
            message=f"metadata.annotations[{_LEAST}] should be between 0 and the number of pods",
        ),
        Validation(
            when=is_new,
            cel="!variables.isElastic",
            message=f"metadata.annotations[{_LEAST}]: {workload_update.PARTIAL_AND_ELASTIC}",
        ),
        Validation(
            when=f"{IS_UPDATE} && '{_LEAST}' in variables.oldAnnotations && !variables.wasSuspended",
            cel=f"{_PARALLELISM} == {parallelism_before}",
            message=f"spec.parallelism: {batch_job.PARALLELISM_IMMUTABLE}",
        ),
    ]


def _synchronised_completions() -> list[Validation]:
    equal, before = table.annotation(_EQUAL), table.old_annotation(_EQUAL)
    path = f"metadata.annotations[{_EQUAL}]"
    return [
        Validation(
            when=f"'{_EQUAL}' in variables.annotations",
            cel=cel.is_boolean(equal),
            message=f"{path} must be a boolean",
        ),
        Validation(
            when=f"{equal} in {cel.TRUE_TEXTS}",
            cel="object.spec.?completionMode.orValue('NonIndexed') != 'NonIndexed' && "
            f"object.spec.?completions.orValue(1) == {_PARALLELISM}",
            message=f"{_EQUAL} is for Indexed jobs with completions equal to parallelism",
        ),
        Validation(
            when=f"{IS_UPDATE} && !variables.wasSuspended && !variables.isSuspended",
            cel=f"({equal} in {cel.TRUE_TEXTS}) == ({before} in {cel.TRUE_TEXTS})",
            message=f"{path}: field is immutable while the job is not suspended",
        ),
    ]


def _elastic_placement(settings: Settings) -> list[Validation]:
    if not topology.is_on(settings):
        return []
    asks = (topology.has(name) for name in (POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY))
    rule = topology.every(
        f"!({' || '.join(asks)})", "required and preferred topology are not supported with elastic jobs"
    )
    return [rule.under("variables.isElastic")]
