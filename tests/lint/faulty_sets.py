"""Sets of queues with one fault each: the rule that finds it, its object, and the manifests."""

from tests.lint.configurations import (
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

GPU = "nvidia.com/gpu"
ONE = (flavor(), queue(), local_queue())
RECLAIM = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
TAKE = RECLAIM | {"borrowWithinCohort": {"policy": "LowerPriority"}}
FAIR = configuration(fairSharing={"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]})
USAGE = {"admissionMode": "UsageBasedAdmissionFairSharing"}


def pair(first, second, **fields):
    """Two ClusterQueues of a cohort, with the quota of cpu in flavor default, and LocalQueues."""
    return (
        flavor(),
        *(
            queue(name, {"default": {"cpu": cpu}}, cohort="all", **fields)
            for name, cpu in (("team", first), ("other", second))
        ),
        local_queue(),
        local_queue("other", "other"),
    )


FAULTY = {
    # Jobs that can never run.
    "job-above-quota": ("job-too-large", "Job", [*ONE, job(cpu=9)]),
    "job-of-many-pods-above-quota": ("job-too-large", "Job", [*ONE, job(cpu=1, parallelism=9)]),
    "job-asks-for-uncovered-resource": ("job-too-large", "Job", [*ONE, job(cpu=1, gpu=1)]),
    "job-fits-no-single-flavor": (
        "job-too-large",
        "Job",
        [flavor("a"), flavor("b"), queue(flavors={"a": {"cpu": 4}, "b": {"cpu": 4}}), local_queue(), job(cpu=6)],
    ),
    "job-above-borrowing-limit": ("job-too-large", "Job", [*pair(quota(4, borrowing=2), 8), job(cpu=8)]),
    "job-above-lending-limit": ("job-too-large", "Job", [*pair(4, quota(8, lending=2)), job(cpu=8)]),
    "job-tolerates-no-taint": (
        "job-too-large",
        "Job",
        [
            flavor() | {"spec": {"nodeTaints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}},
            queue(),
            local_queue(),
            job(cpu=1),
        ],
    ),
    "pod-above-every-node": ("pod-too-large", "Job", [*ONE, node(cpu=4), node("node-2", cpu=4), job(cpu=6)]),
    "pod-asks-for-missing-device": (
        "pod-too-large",
        "Job",
        [flavor(), queue(flavors={"default": {"cpu": 8, GPU: 1}}), local_queue(), node(cpu=8), job(cpu=1, gpu=1)],
    ),
    # Quota that nobody can use or borrow.
    "queue-without-local-queue": ("quota-unusable", "ClusterQueue", [*ONE, queue("spare")]),
    "queue-lends-nothing": (
        "quota-unusable",
        "ClusterQueue",
        [*pair(4, quota(4, lending=0))[:-1]],
    ),
    "queue-lends-too-little": ("quota-unusable", "ClusterQueue", [*pair(4, quota(8, lending=2))[:-1]]),
    "others-borrow-nothing": ("quota-unusable", "ClusterQueue", [*pair(quota(4, borrowing=0), 8)[:-1]]),
    "others-lack-the-flavor": (
        "quota-unusable",
        "ClusterQueue",
        [
            flavor(),
            flavor("gpu"),
            queue(cohort="all"),
            queue("spare", {"gpu": {"cpu": 8}}, cohort="all"),
            local_queue(),
        ],
    ),
    "cohort-quota-nobody-names": (
        "quota-unusable",
        "Cohort",
        [flavor(), flavor("gpu"), cohort("all", {"gpu": {"cpu": 8}}), queue(cohort="all"), local_queue()],
    ),
    "cohort-quota-nobody-borrows": (
        "quota-unusable",
        "Cohort",
        [
            flavor(),
            cohort("all", {"default": {"cpu": 8}}),
            queue(flavors={"default": {"cpu": quota(4, borrowing=2)}}, cohort="all"),
            local_queue(),
        ],
    ),
    # Flavors never reached.
    "flavor-without-quota": (
        "flavor-never-reached",
        "ClusterQueue",
        [flavor(), flavor("spot"), queue(flavors={"default": {"cpu": 8}, "spot": {"cpu": 0}}), local_queue()],
    ),
    "flavor-with-nothing-to-borrow": (
        "flavor-never-reached",
        "ClusterQueue",
        [
            flavor(),
            flavor("spot"),
            queue(flavors={"default": {"cpu": 8}, "spot": {"cpu": 0}}, cohort="all"),
            queue("other", cohort="all"),
            local_queue(),
            local_queue("other", "other"),
        ],
    ),
    "flavor-lent-by-nobody": (
        "flavor-never-reached",
        "ClusterQueue",
        [*pair(0, quota(8, lending=0))],
    ),
    "flavor-that-no-queue-names": ("flavor-never-reached", "ResourceFlavor", [*ONE, flavor("spot")]),
    # Preemption circles.
    "priority-reclaim-and-borrowing": ("preemption-cycle", "ClusterQueue", [*pair(4, 4, preemption=TAKE)]),
    "circle-of-queues-of-different-sizes": ("preemption-cycle", "ClusterQueue", [*pair(6, 4, preemption=TAKE)]),
    "circle-in-a-tree-of-cohorts": (
        "preemption-cycle",
        "ClusterQueue",
        [
            cohort("left", parent="root"),
            cohort("right", parent="root"),
            flavor(),
            queue(flavors={"default": {"cpu": 6}}, cohort="left", preemption=TAKE),
            queue("other", {"default": {"cpu": 6}}, cohort="right", preemption=TAKE),
            local_queue(),
            local_queue("other", "other"),
        ],
    ),
    "circle-of-newer-jobs": (
        "preemption-cycle",
        "ClusterQueue",
        [*pair(10, 2, preemption=TAKE | {"withinClusterQueue": "LowerOrNewerEqualPriority"})],
    ),
    # Order.
    "strict-queue-of-two-namespaces": (
        "strict-queue-blocked",
        "ClusterQueue",
        [flavor(), queue(queueingStrategy="StrictFIFO"), local_queue(), local_queue(namespace="second")],
    ),
    "strict-queue-in-a-cohort": (
        "strict-queue-blocked",
        "ClusterQueue",
        [*pair(4, 4, queueingStrategy="StrictFIFO"), local_queue(namespace="second")],
    ),
    "strict-queue-of-gpus": (
        "strict-queue-blocked",
        "ClusterQueue",
        [
            flavor(),
            queue(flavors={"default": {GPU: 8}}, queueingStrategy="StrictFIFO"),
            local_queue(),
            local_queue(namespace="second"),
        ],
    ),
    "priorities-without-preemption": (
        "large-job-starves",
        "ClusterQueue",
        [*ONE, priority("high", 1000), priority("low", 1)],
    ),
    "priorities-without-preemption-in-a-cohort": (
        "large-job-starves",
        "ClusterQueue",
        [*pair(4, 4), priority("high", 1000), priority("low", 1)],
    ),
    # Lending.
    "borrowing-limit-above-lending": ("lending-below-borrowing", "ClusterQueue", [*pair(quota(4, borrowing=10), 4)]),
    "borrowing-limit-above-lending-limits": (
        "lending-below-borrowing",
        "ClusterQueue",
        [*pair(quota(4, borrowing=4), quota(8, lending=2))],
    ),
    "borrowing-limit-alone-in-a-tree": (
        "lending-below-borrowing",
        "ClusterQueue",
        [
            flavor(),
            cohort("all"),
            queue(flavors={"default": {"cpu": quota(4, borrowing=4)}}, cohort="all"),
            local_queue(),
        ],
    ),
    # Namespaces.
    "selector-of-no-namespace": (
        "selector-matches-nothing",
        "ClusterQueue",
        [
            namespace("default", team="a"),
            flavor(),
            queue(namespaceSelector={"matchLabels": {"team": "b"}}),
            local_queue(),
        ],
    ),
    "selector-missing": (
        "selector-matches-nothing",
        "ClusterQueue",
        [flavor(), queue(namespaceSelector=None), local_queue()],
    ),
    "selector-by-expression": (
        "selector-matches-nothing",
        "ClusterQueue",
        [
            namespace("default", team="a"),
            namespace("second", team="b"),
            flavor(),
            queue(namespaceSelector={"matchExpressions": [{"key": "team", "operator": "In", "values": ["c"]}]}),
            local_queue(),
        ],
    ),
    "local-queue-in-another-namespace": (
        "namespace-not-selected",
        "LocalQueue",
        [
            flavor(),
            queue(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team"}}),
            local_queue(),
        ],
    ),
    "one-of-two-namespaces-not-selected": (
        "namespace-not-selected",
        "LocalQueue",
        [
            namespace("default", team="a"),
            namespace("second"),
            flavor(),
            queue(namespaceSelector={"matchLabels": {"team": "a"}}),
            local_queue(),
            local_queue(namespace="second"),
        ],
    ),
    # Queues that start no job.
    "local-queue-of-misspelled-cluster-queue": (
        "unknown-cluster-queue",
        "LocalQueue",
        [*ONE, local_queue("typo", "taem")],
    ),
    "job-of-misspelled-local-queue": ("unknown-local-queue", "Job", [*ONE, job(queue_name="trian", cpu=1)]),
    "job-of-a-queue-in-another-namespace": (
        "unknown-local-queue",
        "Job",
        [*ONE, local_queue("theirs", namespace="other"), job(queue_name="theirs", cpu=1)],
    ),
    "cluster-queue-of-misspelled-flavor": (
        "unknown-flavor",
        "ClusterQueue",
        [flavor("spot"), queue(flavors={"sopt": {"cpu": 8}}), local_queue()],
    ),
    "cohort-of-misspelled-flavor": (
        "unknown-flavor",
        "Cohort",
        [*pair(4, 4), cohort("all", {"defualt": {"cpu": 8}})],
    ),
    "cluster-queue-on-hold": ("queue-stopped", "ClusterQueue", [flavor(), queue(stopPolicy="Hold"), local_queue()]),
    "drained-cluster-queue": (
        "queue-stopped",
        "ClusterQueue",
        [flavor(), queue(stopPolicy="HoldAndDrain"), local_queue()],
    ),
    "local-queue-on-hold": ("queue-stopped", "LocalQueue", [*ONE, local_queue("held", stop="Hold")]),
    # Nodes.
    "more-quota-than-cpus": ("more-quota-than-nodes", "ClusterQueue", [*ONE, node(cpu=4)]),
    "two-queues-more-than-gpus": (
        "more-quota-than-nodes",
        "ClusterQueue",
        [
            flavor(),
            queue(flavors={"default": {GPU: 4}}),
            queue("other", {"default": {GPU: 4}}),
            local_queue(),
            local_queue("other", "other"),
            node(gpu=4),
        ],
    ),
    "more-quota-than-labelled-nodes": (
        "more-quota-than-nodes",
        "ClusterQueue",
        [flavor(pool="gpu"), queue(), local_queue(), node(cpu=32), node("gpu-1", {"pool": "gpu"}, cpu=4)],
    ),
    "labels-of-no-node": (
        "flavor-without-nodes",
        "ResourceFlavor",
        [flavor(pool="gpu"), queue(), local_queue(), node(cpu=32, labels={"pool": "gpus"})],
    ),
    # Fair sharing.
    "queue-of-weight-zero": (
        "zero-fair-weight",
        "ClusterQueue",
        [FAIR, *pair(4, 4)[:2], queue("other", cohort="all", weight=0), *pair(4, 4)[3:]],
    ),
    "queue-of-weight-zero-without-configuration": (
        "zero-fair-weight",
        "ClusterQueue",
        [
            flavor(),
            queue(cohort="all", weight="0"),
            queue("other", cohort="all"),
            local_queue(),
            local_queue("o", "other"),
        ],
    ),
    "cohort-of-weight-zero": (
        "zero-fair-weight",
        "Cohort",
        [
            FAIR,
            flavor(),
            cohort("all", parent="root", weight=0),
            queue(cohort="all"),
            local_queue(),
        ],
    ),
    "local-queue-of-weight-zero": (
        "zero-fair-weight",
        "LocalQueue",
        [
            configuration(admissionFairSharing={"usageHalfLifeTime": "24h", "usageSamplingInterval": "5m"}),
            flavor(),
            queue(admissionScope=USAGE),
            local_queue(weight=0),
        ],
    ),
    "weight-without-fair-sharing": (
        "weight-without-effect",
        "ClusterQueue",
        [configuration(), *pair(4, 4)[:2], queue("other", cohort="all", weight=3), *pair(4, 4)[3:]],
    ),
    "half-life-of-zero": (
        "half-life-zero",
        "Configuration",
        [
            configuration(admissionFairSharing={"usageHalfLifeTime": "0s", "usageSamplingInterval": "5m"}),
            flavor(),
            queue(admissionScope=USAGE),
            local_queue(),
        ],
    ),
    "admission-scope-without-configuration": (
        "admission-scope-without-effect",
        "ClusterQueue",
        [configuration(), flavor(), queue(admissionScope=USAGE), local_queue()],
    ),
    # Cohorts and files.
    "cohorts-in-a-circle": (
        "cohort-cycle",
        "Cohort",
        [cohort("a", parent="b"), cohort("b", parent="a"), flavor(), queue(cohort="a"), local_queue()],
    ),
    "cohort-is-its-own-parent-by-three": (
        "cohort-cycle",
        "Cohort",
        [
            *(cohort(name, parent=parent) for name, parent in (("a", "b"), ("b", "c"), ("c", "a"))),
            flavor(),
            queue(cohort="c"),
            local_queue(),
        ],
    ),
    "misspelled-field": ("invalid-manifest", "ClusterQueue", [*ONE, queue("other", queueStrategy="StrictFIFO")]),
    "queue-defined-twice": ("defined-twice", "ClusterQueue", [*ONE, queue(flavors={"default": {"cpu": 4}})]),
}
