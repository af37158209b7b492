"""Cohorts whose parents form a circle: every ClusterQueue below admits nothing."""

from collections.abc import Iterator

from pykueue.api.manifest_validation import Severity
from pykueue.engine import values
from pykueue.lint import quotas
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet
from pykueue.lint.world import SmallWorld

COHORT_CYCLE = LintRule(
    id="cohort-cycle",
    severity=Severity.ERROR,
    summary="The parents of a Cohort form a circle, and no ClusterQueue below admits anything.",
    remedy="Remove spec.parentName of one of the Cohorts.",
)
RULES = (COHORT_CYCLE,)


def check(queue_set: QueueSet) -> Iterator[LintFinding]:
    visited: set[str] = set()
    for cohort in queue_set.cohorts.values():
        circle = _circle(queue_set, cohort)
        if not circle or cohort.name in visited:
            continue
        visited |= set(circle)
        queue = next(iter(queue_set.members(cohort.name)), None)
        yield LintFinding(
            rule=COHORT_CYCLE,
            subject=LintSubject(kind="Cohort", name=cohort.name),
            field="spec.parentName",
            message=f"its parents form a circle: {' → '.join((*circle, circle[0]))}",
            example=() if queue is None else _refusal(queue_set, queue),
        )


def _circle(queue_set: QueueSet, cohort: values.Cohort) -> list[str]:
    """The names of the circle that begins with the cohort; empty if there is none."""
    names: list[str] = []
    current: values.Cohort | None = cohort
    while current is not None and current.name not in names:
        names.append(current.name)
        current = queue_set.cohorts.get(current.parent) if current.parent else None
    return names if current is not None and current.name == cohort.name else []


def _refusal(queue_set: QueueSet, queue: values.ClusterQueue) -> tuple[str, ...]:
    pair = next((pair for pair, _ in quotas.pairs(queue)), None)
    world = SmallWorld(queue_set)
    world.submit("small", queue.name, {} if pair is None else {pair.resource: 1})
    world.play()
    world.add_waiting()
    return tuple(world.story)
