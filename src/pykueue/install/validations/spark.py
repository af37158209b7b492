"""SparkApplication. In Python: `api.rules.jobs.spark`."""

from msgspec.structs import replace

from pykueue.api.rules.jobs import spark
from pykueue.api.scheme import Settings
from pykueue.install.validations import cel, generic, table, topology
from pykueue.install.validations.table import NEW, Table, Validation

_COUNTS = {"driver": "1", "executor": f"{NEW}.spec.?executor.?instances.orValue(0)"}


def of_applications(settings: Settings) -> Table:
    allocation = cel.at(NEW, ("spec", "dynamicAllocation", "enabled"), "false")
    own = [
        Validation(cel=f"{NEW}.spec.?mode.orValue('') == 'cluster'", message=f"spec.mode: {spark.CLUSTER_MODE_ONLY}"),
        Validation(
            when="!variables.isElastic",
            cel=f"{allocation} != true",
            message=f"spec.dynamicAllocation.enabled: {spark.ELASTIC_ONLY}",
        ),
    ]
    templates = ", ".join(topology.annotated(_annotations(role), count) for role, count in _COUNTS.items())
    more = tuple(table.under(generic.is_managed(settings), own))
    generic_table = generic.plain(spark.JOB_KIND, settings, templates=f"[{templates}]", more=more)
    return replace(generic_table, conditions=generic.unless_never_managed(settings))


def _annotations(role: str) -> str:
    """An annotation of the role overrides one of its pod template."""
    place = f"{NEW}.spec.?{role}"
    entries = (
        f"?'{name}': {place}.?annotations[?'{name}'].or({place}.?template.?metadata.?annotations[?'{name}'])"
        for name in topology.NAMES
    )
    return f"{{{', '.join(entries)}}}"
