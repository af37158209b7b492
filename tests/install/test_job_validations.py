"""Jobs of every kind are refused by the policies of a cluster as by the embedded API."""

import itertools

import hypothesis
import pytest
from hypothesis import strategies
from tests.install import job_objects, policy_verdicts
from tests.install.job_objects import JOBS, changed, marked, placed, suspended

pytestmark = pytest.mark.untraced

REPRESENTATIVE = ("Job", "JobSet", "Pod", "LeaderWorkerSet", "SparkApplication")
"""Kinds whose templates stand differently: each of them is tried with everything."""


def disagreements(writes, of=None):
    return [(write, difference) for write in writes if (difference := policy_verdicts.disagreement(*write, of=of))]


@pytest.mark.parametrize("kind", JOBS)
def test_labels_and_annotations_are_refused_by_both_or_by_neither(kind):
    job = JOBS[kind]
    created = [
        *(marked(job, labels) for labels in job_objects.LABELS),
        *(marked(job, None, annotations) for annotations in job_objects.ANNOTATIONS),
    ]
    assert disagreements((obj,) for obj in created) == []


@pytest.mark.parametrize("kind", job_objects.TEMPLATES)
def test_placement_is_refused_by_both_or_by_neither(kind):
    placements = job_objects.PLACEMENTS if kind in REPRESENTATIVE else job_objects.PLACEMENTS[::5]
    places = itertools.product(placements, range(len(job_objects.TEMPLATES[kind])))
    created = [
        *(placed(JOBS[kind], placement) for placement in placements),
        *(placed(JOBS[kind], *place) for place in places),
    ]
    assert disagreements((obj,) for obj in created) == []


def of_a_pair(first, second):
    """A JobSet whose two jobs form a group."""
    ask = {job_objects.TOGETHER: "g"}
    return placed(placed(JOBS["JobSet"], ask | first, 0), ask | second, 1)


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ({job_objects.REQUIRED: "rack"}, {job_objects.REQUIRED: "rack"}, False),
        ({job_objects.REQUIRED: "rack"}, {job_objects.REQUIRED: "block"}, True),
        ({job_objects.REQUIRED: "rack"}, {job_objects.PREFERRED: "rack"}, True),
        ({job_objects.REQUIRED: "rack"}, {job_objects.REQUIRED: "rack", job_objects.TOGETHER: "other"}, True),
    ],
)
def test_a_group_of_two_asks_for_one_topology(first, second, is_refused):
    job = of_a_pair(first, second)
    assert (bool(policy_verdicts.complaints(job)), bool(policy_verdicts.refusals(job))) == (is_refused, is_refused)


LABELS = [
    {}, {job_objects.QUEUE: "lq"}, {job_objects.QUEUE: "other"}, *({job_objects.QUEUE: "lq", key: value} for key, value in (
        (job_objects.CLASS, "high"), (job_objects.TIME, "5"), (job_objects.PREBUILT, "w"), (job_objects.GROUP, "g")))
]  # fmt: skip
ANNOTATIONS = [
    {}, {job_objects.ELASTIC: "true"}, {job_objects.GATES: "a.io/b"}, {job_objects.GATES: "a.io/b,c.io/d"}, {job_objects.PREBUILT: "w"},
    {job_objects.LEAST: "1"}, {job_objects.EQUAL: "true"}, {job_objects.GROUP: "g", job_objects.COUNT: "1"},
    {job_objects.GROUP: "g", job_objects.COUNT: "1", job_objects.RETRIABLE: "false"},
]  # fmt: skip


@pytest.mark.parametrize("kind", JOBS)
def test_a_change_of_labels_is_refused_by_both_or_by_neither(kind):
    states = [suspended(marked(JOBS[kind], labels), value=value) for labels in LABELS for value in (True, False)]
    assert disagreements((new, old) for old, new in itertools.product(states, states)) == []


@pytest.mark.parametrize("kind", ["Job", "Pod", "RayCluster", "TrainJob", "Deployment"])
def test_a_change_of_annotations_is_refused_by_both_or_by_neither(kind):
    changes = itertools.product(ANNOTATIONS, ANNOTATIONS, (True, False))
    writes = [
        (suspended(marked(JOBS[kind], None, new), value=value), suspended(marked(JOBS[kind], None, old), value=value))
        for old, new, value in changes
    ]
    assert disagreements(writes) == []


RAY = ("spec", "rayClusterSpec")
GATED = [{"name": "kueue.x-k8s.io/elastic-job"}]
OWN_RULES = [
    changed(JOBS["RayJob"], ("spec", "shutdownAfterJobFinishes"), False),
    changed(JOBS["RayJob"], RAY, None),
    changed(JOBS["RayJob"], ("spec", "clusterSelector"), {"a": "b"}),
    changed(changed(JOBS["RayJob"], RAY, None), ("spec", "clusterSelector"), {"a": "b"}),
    changed(JOBS["RayJob"], (*RAY, "enableInTreeAutoscaling"), True),
    changed(JOBS["RayJob"], (*RAY, "workerGroupSpecs", 0, "groupName"), "head"),
    *(changed(JOBS["RayJob"], (*RAY, "workerGroupSpecs"), [{"groupName": f"g{n}"} for n in range(count)]) for count in (17, 18)),
    *(marked(changed(JOBS[kind], (*path, "enableInTreeAutoscaling"), True), None, {job_objects.ELASTIC: "true"})
      for kind, path in (("RayJob", RAY), ("RayCluster", ("spec",)), ("RayService", ("spec", "rayClusterConfig")))),
    changed(JOBS["SparkApplication"], ("spec", "mode"), "client"),
    *(marked(changed(JOBS["SparkApplication"], ("spec", "dynamicAllocation", "enabled"), True), None, annotations)
      for annotations in ({}, {job_objects.ELASTIC: "true"})),
    *(changed(changed(JOBS["SparkApplication"], ("spec", "driver", "annotations"), {job_objects.REQUIRED: level}),
              ("spec", "driver", "template", "metadata", "annotations"), {job_objects.REQUIRED: other})
      for level, other in itertools.product(("rack", "a b"), repeat=2)),
    *(changed(JOBS["LeaderWorkerSet"], ("spec", "replicas"), count) for count in (-1, 0, 1_000_000, 1_000_001)),
]  # fmt: skip
ELASTIC_CLUSTER = marked(JOBS["RayCluster"], None, {job_objects.ELASTIC: "true"})
for _path in job_objects.TEMPLATES["RayCluster"]:
    ELASTIC_CLUSTER = changed(ELASTIC_CLUSTER, (*_path, "spec", "schedulingGates"), GATED)
OWN_RULES += [
    ELASTIC_CLUSTER,
    changed(changed(ELASTIC_CLUSTER, ("spec", "enableInTreeAutoscaling"), True), ("spec", "managedBy"), "kueue.x-k8s.io/multikueue"),
]  # fmt: skip


@pytest.mark.parametrize("manages_all", [False, True])
def test_rules_of_single_kinds_refuse_by_both_or_by_neither(manages_all):
    of = policy_verdicts.settings(manages_all=manages_all)
    created = [(obj,) for job in OWN_RULES for obj in (job, marked(job, {}))]
    assert disagreements(created, of) == []


POD_SPEC = ("spec", "template", "spec")
PARENT = "kueue.x-k8s.io/pod-suspending-parent"
SHAPES = [
    (("nodeSelector",), {"a": "b"}), (("tolerations",), [{"key": "a"}]), (("priority",), 5), (("overhead",), {"cpu": "1"}),
    (("containers", 0, "resources", "requests"), {"cpu": "2"}), (("containers", 0, "ports"), [{"containerPort": 80}]),
    (("containers", 0, "image"), "other"), (("resources",), {"requests": {"cpu": "1"}}), (("initContainers",), [{"name": "i"}]),
]  # fmt: skip
LEADER, WORKER = (("spec", "leaderWorkerTemplate", name) for name in ("leaderTemplate", "workerTemplate"))


def _from_and_to_the_first(states):
    return [*((states[0], state) for state in states), *((state, states[0]) for state in states)]


def test_changes_of_what_holds_pods_back_are_refused_by_both_or_by_neither():
    stateful_sets = [
        JOBS["StatefulSet"],
        *(changed(JOBS["StatefulSet"], ("spec", "replicas"), count) for count in (0, 2)),
        changed(JOBS["StatefulSet"], ("status", "replicas"), 1),
        changed(JOBS["StatefulSet"], ("metadata", "deletionTimestamp"), "2026-01-01T00:00:00Z"),
        changed(JOBS["StatefulSet"], ("spec", "template", "metadata", "annotations"), {PARENT: "another"}),
        marked(JOBS["StatefulSet"], {}),
        *(changed(JOBS["StatefulSet"], (*POD_SPEC, *path), value) for path, value in SHAPES),
    ]
    groups = [
        JOBS["LeaderWorkerSet"],
        changed(JOBS["LeaderWorkerSet"], LEADER, None),
        changed(JOBS["LeaderWorkerSet"], ("spec", "leaderWorkerTemplate", "size"), 4),
        *(changed(JOBS["LeaderWorkerSet"], (*place, "spec", *path), value)
          for place in (LEADER, WORKER) for path, value in SHAPES),
    ]  # fmt: skip
    writes = [(new, old) for states in (stateful_sets, groups) for old, new in _from_and_to_the_first(states)]
    assert disagreements(writes) == []


GATES_OFF = (
    "-AdmissionGatedBy", "-WorkloadIdentifierAnnotations", "-ElasticJobsViaWorkloadSlices", "-TASMultiLayerTopology",
    "-ValidateRayAndSparkJobUpdates", "-LWSImmutableGroupSize", "-SkipAncestorCheckForDeletedWorkloads",
)  # fmt: skip


@pytest.mark.parametrize("gate", GATES_OFF)
def test_a_gate_that_is_off_is_off_for_both(gate):
    of = policy_verdicts.settings(gate)
    created = [
        marked(JOBS[kind], None, {key: value})
        for kind in ("Job", "Pod", "RayJob", "Deployment")
        for key, value in (
            (job_objects.GATES, "bad"),
            (job_objects.PREBUILT, "Bad"),
            (job_objects.PREBUILT, "B" * 70),
            (job_objects.ELASTIC, "true"),
        )
    ]
    created += [placed(JOBS["Job"], {job_objects.LAYERS: '[{"topology": "rack", "size": 1}]'})]
    assert disagreements([(obj,) for obj in created], of) == []


def test_a_queue_is_kept_where_there_is_a_default_queue():
    job = suspended(JOBS["Job"], value=True)
    assert policy_verdicts.complaints(marked(job, {}), job, has_default_queue=True)
    (policy, binding) = [
        obj for obj in policy_verdicts.policies() if obj["metadata"]["name"].startswith("keep-queue-jobs-batch")
    ]
    conditions = [condition["expression"] for condition in policy["spec"]["matchConditions"]]
    values = {"object": marked(job, {}), "oldObject": job}
    assert all(policy_verdicts.evaluate(text, values) for text in conditions)
    assert not any(policy_verdicts.evaluate(text, {"object": job, "oldObject": job}) for text in conditions)
    assert binding["spec"]["paramRef"] == {"name": "default", "parameterNotFoundAction": "Allow"}


KEYS = {
    "labels": {
        job_objects.QUEUE: ("lq", "", "Bad"), job_objects.TIME: ("1", "0"), job_objects.PREBUILT: ("w", ""), job_objects.CLASS: ("high", ""),
        job_objects.GROUP: ("g", "w"), job_objects.MANAGED: ("true", "no"),
    },
    "annotations": {
        job_objects.ELASTIC: ("true", "false"), job_objects.GATES: ("a.io/b", "a.io/b,c.io/d", "x"), job_objects.PREBUILT: ("w", "g"),
        job_objects.LEAST: ("1", "9"), job_objects.GROUP: ("g",), job_objects.COUNT: ("1", "0"), job_objects.REQUIRED: ("rack", "a b"),
        job_objects.SLICE: ("rack",), job_objects.SIZE: ("1", "7"), job_objects.TOGETHER: ("g",), job_objects.RETRIABLE: ("false",),
    },
}  # fmt: skip


@strategies.composite
def written(draw, kind):
    chosen = {
        part: {key: draw(strategies.sampled_from(values)) for key, values in keys.items() if draw(strategies.integers(0, 2)) == 0}
        for part, keys in KEYS.items()
    }  # fmt: skip
    return suspended(marked(JOBS[kind], chosen["labels"], chosen["annotations"]), value=draw(strategies.booleans()))


@pytest.mark.parametrize("kind", ["Job", "Pod", "RayCluster"])
@hypothesis.given(data=strategies.data())
@hypothesis.settings(max_examples=60, deadline=None)
def test_any_change_is_refused_by_both_or_by_neither(kind, data):
    old, new = data.draw(strategies.one_of(strategies.none(), written(kind))), data.draw(written(kind))
    assert policy_verdicts.disagreement(new, old) is None


@pytest.mark.parametrize("kind", ["Job", "Pod", "Deployment", "RayJob", "TrainJob"])
def test_what_has_nothing_of_kueue_passes(kind):
    stranger = marked(JOBS[kind], {"app": "mine"}, {"note": "mine"})
    assert policy_verdicts.refusals(stranger) == policy_verdicts.refusals(stranger, stranger) == []
