"""Quota that nobody can use or borrow, flavors that no job reaches, borrowing without a lender."""

from collections.abc import Iterator, Sequence

from pykueue.api.manifest_validation import Severity
from pykueue.engine import values
from pykueue.lint import quotas
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet
from pykueue.lint.world import SmallWorld
from pykueue.translate import amounts

QUOTA_UNUSABLE = LintRule(
    id="quota-unusable",
    severity=Severity.WARNING,
    summary="Nobody can use or borrow some of the quota.",
    remedy="Add a LocalQueue for it, raise lendingLimit or a borrowingLimit, or remove the quota.",
)
FLAVOR_NEVER_REACHED = LintRule(
    id="flavor-never-reached",
    severity=Severity.WARNING,
    summary="No job can ever get the flavor.",
    remedy="Give the flavor quota, let the queue borrow it, or remove the flavor.",
)
LENDING_BELOW_BORROWING = LintRule(
    id="lending-below-borrowing",
    severity=Severity.WARNING,
    summary="A borrowingLimit promises more than the cohort can lend.",
    remedy="Lower the borrowingLimit, or raise the quota or lendingLimit of the others in the cohort.",
)
RULES = (QUOTA_UNUSABLE, FLAVOR_NEVER_REACHED, LENDING_BELOW_BORROWING)


def check(queue_set: QueueSet) -> Iterator[LintFinding]:
    for owners, queues in quotas.trees(queue_set):
        if any(owner.cohort for owner in queues) and not queue_set.is_complete and _is_partial(queue_set, queues):
            continue
        yield from _unusable(queue_set, owners, queues)
    probe = SmallWorld(queue_set)
    for queue in queue_set.cluster_queues.values():
        if probe.is_active(queue.name):
            yield from _unreachable(queue_set, queue, probe)
            yield from _unlendable(queue_set, queue, probe)
    yield from _unnamed(queue_set)


def _is_partial(queue_set: QueueSet, queues: Sequence[values.ClusterQueue]) -> bool:
    """Whether other files may define members of the cohort: the set has only one of them."""
    return len(queues) == 1 and not queue_set.cohorts


def _unusable(
    queue_set: QueueSet, owners: Sequence[quotas.Owner], queues: Sequence[values.ClusterQueue]
) -> Iterator[LintFinding]:
    """Fill the tree with jobs: first within the quota of each queue, then by borrowing.

    A queue with users can use its own quota, so only quota of others may be left.
    """
    users = [queue for queue in queues if queue_set.has_users(queue.name)]
    totals: dict[values.FlavorResource, int] = {}
    for owner in owners:
        for pair, quota in quotas.pairs(owner):
            totals[pair] = totals.get(pair, 0) + quota.nominal
    others = [owner for owner in owners if owner not in users]
    for pair, total in sorted(totals.items()):
        if not any((own := quotas.quota_of(owner, pair)) and own.nominal for owner in others):
            continue
        world = SmallWorld(queue_set, preempts=False)
        for queue in users:
            own = quotas.quota_of(queue, pair)
            if own is not None and own.nominal:
                world.submit(f"own-{queue.name}", queue.name, {pair.resource: own.nominal}, flavor=pair.flavor)
        world.play()
        for queue in users:
            if quotas.quota_of(queue, pair) is not None:
                _borrow(world, queue, pair, total)
        used = world.usage(pair.flavor, pair.resource)
        if used < total:
            yield _unusable_finding(owners, pair, total - used, [*world.story, _used(pair, used, total)])


def _borrow(world: SmallWorld, queue: values.ClusterQueue, pair: values.FlavorResource, total: int) -> None:
    """Submit the largest job that is admitted: halve the size until nothing is left to take."""
    size, number = total - world.usage(pair.flavor, pair.resource), 0
    while size > 0:
        name = f"more-{queue.name}-{number}"
        length = len(world.story)
        world.submit(name, queue.name, {pair.resource: size}, flavor=pair.flavor)
        world.play()
        if world.is_admitted(name):
            number += 1
            size = min(size, total - world.usage(pair.flavor, pair.resource))
        else:
            world.withdraw(name)
            del world.story[length:]
            size //= 2


def _used(pair: values.FlavorResource, used: int, total: int) -> str:
    return f"all jobs together have {amounts.to_text(pair.resource, used)} of {quotas.text(pair, total)}"


def _unusable_finding(
    owners: Sequence[quotas.Owner], pair: values.FlavorResource, rest: int, story: list[str]
) -> LintFinding:
    with_quota = [owner for owner in owners if (quota := quotas.quota_of(owner, pair)) and quota.nominal]
    owner = max(with_quota, key=lambda owner: _loss(owner, pair))
    return LintFinding(
        rule=QUOTA_UNUSABLE,
        subject=LintSubject(kind=type(owner).__name__, name=owner.name),
        field=quotas.field_of(owner, pair),
        message=f"nobody can use {quotas.text(pair, rest)} of flavor {pair.flavor}",
        example=tuple(story),
    )


def _loss(owner: quotas.Owner, pair: values.FlavorResource) -> tuple[int, int]:
    """The owner that lends least comes first."""
    quota = quotas.quota_of(owner, pair)
    assert quota is not None
    return (0 if quota.lending_limit is None else quota.nominal - quota.lending_limit, quota.nominal)


def _unreachable(queue_set: QueueSet, queue: values.ClusterQueue, probe: SmallWorld) -> Iterator[LintFinding]:
    """A flavor of which the queue may have nothing, of any resource.

    A borrowingLimit of 0 beside no quota says that this is meant.
    """
    is_partial = queue.cohort is not None and _is_partial(queue_set, queue_set.tree_of(queue))
    for group in queue.resource_groups:
        for flavor in group.flavors:
            pairs = [values.FlavorResource(flavor.name, resource) for resource in flavor.resources]
            is_meant = all(quota.borrowing_limit == 0 for quota in flavor.resources.values())
            if is_partial or is_meant or any(probe.capacity(queue.name, pair) for pair in pairs):
                continue
            world = SmallWorld(queue_set)
            world.submit("small", queue.name, {pairs[0].resource: 1}, flavor=flavor.name)
            world.play()
            world.add_waiting()
            yield LintFinding(
                rule=FLAVOR_NEVER_REACHED,
                subject=LintSubject(kind="ClusterQueue", name=queue.name),
                field=quotas.flavor_field(queue, flavor.name),
                message=f"flavor {flavor.name} has no quota here, and there is nothing to borrow",
                example=tuple(world.story),
            )


def _unlendable(queue_set: QueueSet, queue: values.ClusterQueue, probe: SmallWorld) -> Iterator[LintFinding]:
    is_partial = queue.cohort is not None and _is_partial(queue_set, queue_set.tree_of(queue))
    for pair, quota in quotas.pairs(queue):
        if not quota.borrowing_limit or is_partial:
            continue
        promised, capacity = quota.nominal + quota.borrowing_limit, probe.capacity(queue.name, pair)
        if capacity < promised:
            world = SmallWorld(queue_set)
            world.submit("large", queue.name, {pair.resource: promised}, flavor=pair.flavor)
            world.play()
            world.add_waiting()
            lent = max(0, capacity - quota.nominal)
            yield LintFinding(
                rule=LENDING_BELOW_BORROWING,
                subject=LintSubject(kind="ClusterQueue", name=queue.name),
                field=quotas.field_of(queue, pair, "borrowingLimit"),
                message=(
                    f"borrowingLimit is {quotas.text(pair, quota.borrowing_limit)} of flavor {pair.flavor},"
                    f" and the cohort lends at most {amounts.to_text(pair.resource, lent)}"
                ),
                example=tuple(world.story),
            )


def _unnamed(queue_set: QueueSet) -> Iterator[LintFinding]:
    """Flavors that no queue names, in a set that has queues."""
    named = {pair.flavor for owner in queue_set.owners for pair, _ in quotas.pairs(owner)}
    if not named:
        return
    for name in sorted(set(queue_set.flavors) - named):
        message = "no ClusterQueue and no Cohort names it"
        yield LintFinding(
            rule=FLAVOR_NEVER_REACHED, subject=LintSubject(kind="ResourceFlavor", name=name), message=message
        )
