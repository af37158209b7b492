"""Sets of queues that work: no rule may find an error or a warning in them."""

from tests.lint.configurations import (
    check,
    cohort,
    configuration,
    flavor,
    job,
    local_queue,
    namespace,
    node,
    priority,
    queue,
    quota,
)
from tests.lint.faulty_sets import FAIR, GPU, ONE, USAGE, pair

AFS = configuration(admissionFairSharing={"usageHalfLifeTime": "168h", "usageSamplingInterval": "5m"})
LOWER = {"reclaimWithinCohort": "LowerPriority", "withinClusterQueue": "LowerPriority"}
ANY = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
TWO = (flavor(), flavor("spot"))
BY_NAME = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
TAINTED = flavor() | {"spec": {"nodeTaints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}

SOUND = {
    "one-queue": [*ONE],
    "one-queue-and-a-job": [*ONE, job(cpu=8)],
    "jobs-that-wait-for-each-other": [*ONE, job(cpu=8), job("second", cpu=8)],
    "a-job-of-many-pods": [*ONE, job(cpu=1, parallelism=8)],
    "a-job-that-borrows": [*pair(4, 4), job(cpu=8)],
    "a-job-of-another-set": [flavor(), queue(), job(queue_name="elsewhere", cpu=100)],
    "a-queue-alone": [queue()],
    "a-queue-and-its-flavor": [flavor(), queue()],
    "a-queue-of-flavors-of-another-set": [queue(flavors={"spot": {"cpu": 8}}), local_queue(), job(cpu=8)],
    "a-flavor-alone": [flavor()],
    "a-local-queue-alone": [local_queue()],
    "a-member-of-a-cohort-alone": [flavor(), queue(flavors={"default": {"cpu": quota(0, borrowing=4)}}, cohort="all")],
    "strict-queue-of-one-namespace": [flavor(), queue(queueingStrategy="StrictFIFO"), local_queue()],
    "strict-queue-of-two-local-queues": [
        flavor(),
        queue(queueingStrategy="StrictFIFO"),
        local_queue(),
        local_queue("second"),
    ],
    "two-flavors": [*TWO, queue(flavors={"default": {"cpu": 8}, "spot": {"cpu": 8}}), local_queue()],
    "gpus-in-one-of-two-flavors": [
        *TWO,
        queue(flavors={"default": {"cpu": 8, GPU: 0}, "spot": {"cpu": 8, GPU: 4}}),
        local_queue(),
    ],
    "flavor-that-must-not-be-borrowed": [
        *TWO,
        queue(flavors={"default": {"cpu": 8}, "spot": {"cpu": quota(0, borrowing=0)}}, cohort="all"),
        queue("other", {"default": {"cpu": 8}, "spot": {"cpu": 8}}, cohort="all"),
        local_queue(),
        local_queue("other", "other"),
    ],
    "cohort": [*pair(4, 4)],
    "cohort-with-a-queue-that-only-lends": [*pair(4, 4)[:-1]],
    "cohort-with-queues-that-only-borrow": [
        flavor(),
        queue("shared", cohort="all"),
        queue(flavors={"default": {"cpu": 0}}, cohort="all"),
        queue("other", {"default": {"cpu": 0}}, cohort="all"),
        local_queue(),
        local_queue("other", "other"),
    ],
    "borrowing-within-what-is-lent": [*pair(quota(4, borrowing=4), 4)],
    "lending-limit-with-users": [*pair(4, quota(4, lending=0))],
    "cohort-with-quota-of-its-own": [
        flavor(),
        cohort("all", {"default": {"cpu": 8}}),
        queue(flavors={"default": {"cpu": 0}}, cohort="all"),
        local_queue(),
    ],
    "tree-of-cohorts": [
        flavor(),
        cohort("root", {"default": {"cpu": 8}}),
        cohort("left", parent="root"),
        cohort("right", parent="root"),
        queue(cohort="left"),
        queue("other", cohort="right"),
        local_queue(),
        local_queue("other", "other"),
    ],
    "preemption-within-the-queue": [flavor(), queue(preemption={"withinClusterQueue": "LowerPriority"}), local_queue()],
    "newer-jobs-are-preempted": [
        flavor(),
        queue(preemption={"withinClusterQueue": "LowerOrNewerEqualPriority"}),
        local_queue(),
    ],
    "reclaim-by-priority": [*pair(4, 4, preemption=LOWER)],
    "reclaim-from-any": [*pair(4, 4, preemption=ANY)],
    "reclaim-from-any-of-different-sizes": [*pair(6, 2, preemption=ANY)],
    "borrowing-preemption-by-priority": [
        *pair(4, 4, preemption=LOWER | {"borrowWithinCohort": {"policy": "LowerPriority"}})
    ],
    "circle-ended-by-the-guard": [
        configuration(preemptionLoopGuard=True),
        *pair(4, 4, preemption=ANY | {"borrowWithinCohort": {"policy": "LowerPriority"}}),
    ],
    "priorities-with-preemption": [
        flavor(),
        queue(preemption={"withinClusterQueue": "LowerPriority"}),
        local_queue(),
        priority("high", 1000),
        priority("low", 1),
        job(priority_class="high", cpu=8),
    ],
    "one-priority": [*ONE, priority("normal", 10)],
    "selector-by-name": [flavor(), queue(namespaceSelector=BY_NAME), local_queue()],
    "selector-by-label": [
        namespace("default", team="a"),
        flavor(),
        queue(namespaceSelector={"matchLabels": {"team": "a"}}),
        local_queue(),
    ],
    "selector-by-label-of-unknown-namespaces": [
        flavor(),
        queue(namespaceSelector={"matchLabels": {"team": "a"}}),
        local_queue(),
    ],
    "as-much-quota-as-nodes": [*ONE, node(cpu=4), node("node-2", cpu=4), job(cpu=4)],
    "less-quota-than-nodes": [*ONE, node(cpu=64)],
    "quota-of-labelled-nodes": [
        flavor(pool="gpu"),
        queue(),
        local_queue(),
        node(cpu=4),
        node("gpu-1", {"pool": "gpu"}, cpu=8),
    ],
    "nodes-by-provisioning": [
        flavor(),
        check("provision", "kueue.x-k8s.io/provisioning-request"),
        queue(admissionChecksStrategy={"admissionChecks": [{"name": "provision"}]}),
        local_queue(),
        node(cpu=2),
    ],
    "nodes-of-other-clusters": [
        flavor(),
        check("multikueue", "kueue.x-k8s.io/multikueue"),
        queue(admissionChecksStrategy={"admissionChecks": [{"name": "multikueue"}]}),
        local_queue(),
        node(cpu=2),
        job(cpu=8),
    ],
    "quota-of-credits-that-no-node-has": [
        flavor(),
        queue(flavors={"default": {"credits": 100}}),
        local_queue(),
        node(cpu=2),
    ],
    "fair-sharing": [FAIR, *pair(4, 4, preemption=ANY)],
    "fair-sharing-with-weights": [
        FAIR,
        flavor(),
        queue(cohort="all", weight=2, preemption=ANY),
        queue("other", cohort="all", weight="0.5", preemption=ANY),
        local_queue(),
        local_queue("other", "other"),
    ],
    "weight-of-one-without-fair-sharing": [configuration(), flavor(), queue(cohort="all", weight=1), local_queue()],
    "weights-without-configuration": [flavor(), queue(cohort="all", weight=3), local_queue()],
    "admission-fair-sharing": [AFS, flavor(), queue(admissionScope=USAGE), local_queue(weight=2)],
    "admission-scope-without-configuration": [flavor(), queue(admissionScope=USAGE), local_queue()],
    "tainted-flavor-and-no-job": [TAINTED, queue(), local_queue()],
}
