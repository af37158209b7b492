"""Jobs of every kind are refused by the policies of a cluster as by the embedded API."""

import itertools

import hypothesis
import pytest
from hypothesis import strategies
from tests.install import jobs, verdicts
from tests.install.jobs import JOBS, changed, marked, placed, suspended

REPRESENTATIVE = ("Job", "JobSet", "Pod", "LeaderWorkerSet", "SparkApplication")
"""Kinds whose templates stand differently: each of them is tried with everything."""


def disagreements(writes, of=None):
    return [(write, found) for write in writes if (found := verdicts.disagreement(*write, of=of))]


@pytest.mark.parametrize("kind", JOBS)
def test_labels_and_annotations_are_refused_by_both_or_by_neither(kind):
    job = JOBS[kind]
    created = [
        *(marked(job, labels) for labels in jobs.LABELS),
        *(marked(job, None, annotations) for annotations in jobs.ANNOTATIONS),
    ]
    assert disagreements((obj,) for obj in created) == []


@pytest.mark.parametrize("kind", jobs.TEMPLATES)
def test_placement_is_refused_by_both_or_by_neither(kind):
    wishes = jobs.PLACEMENTS if kind in REPRESENTATIVE else jobs.PLACEMENTS[::5]
    places = itertools.product(wishes, range(len(jobs.TEMPLATES[kind])))
    created = [*(placed(JOBS[kind], wish) for wish in wishes), *(placed(JOBS[kind], *place) for place in places)]
    assert disagreements((obj,) for obj in created) == []


def of_a_pair(first, second):
    """A JobSet whose two jobs form a group."""
    ask = {jobs.TOGETHER: "g"}
    return placed(placed(JOBS["JobSet"], ask | first, 0), ask | second, 1)


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ({jobs.REQUIRED: "rack"}, {jobs.REQUIRED: "rack"}, False),
        ({jobs.REQUIRED: "rack"}, {jobs.REQUIRED: "block"}, True),
        ({jobs.REQUIRED: "rack"}, {jobs.PREFERRED: "rack"}, True),
        ({jobs.REQUIRED: "rack"}, {jobs.REQUIRED: "rack", jobs.TOGETHER: "other"}, True),
    ],
)
def test_a_group_of_two_asks_for_one_topology(first, second, is_refused):
    job = of_a_pair(first, second)
    assert (bool(verdicts.complaints(job)), bool(verdicts.refusals(job))) == (is_refused, is_refused)


LABELS = [
    {}, {jobs.QUEUE: "lq"}, {jobs.QUEUE: "other"}, *({jobs.QUEUE: "lq", key: value} for key, value in (
        (jobs.CLASS, "high"), (jobs.TIME, "5"), (jobs.PREBUILT, "w"), (jobs.GROUP, "g")))
]  # fmt: skip
ANNOTATIONS = [
    {}, {jobs.ELASTIC: "true"}, {jobs.GATES: "a.io/b"}, {jobs.GATES: "a.io/b,c.io/d"}, {jobs.PREBUILT: "w"},
    {jobs.LEAST: "1"}, {jobs.EQUAL: "true"}, {jobs.GROUP: "g", jobs.COUNT: "1"},
    {jobs.GROUP: "g", jobs.COUNT: "1", jobs.RETRIABLE: "false"},
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
    *(marked(changed(JOBS[kind], (*path, "enableInTreeAutoscaling"), True), None, {jobs.ELASTIC: "true"})
      for kind, path in (("RayJob", RAY), ("RayCluster", ("spec",)), ("RayService", ("spec", "rayClusterConfig")))),
    changed(JOBS["SparkApplication"], ("spec", "mode"), "client"),
    *(marked(changed(JOBS["SparkApplication"], ("spec", "dynamicAllocation", "enabled"), True), None, annotations)
      for annotations in ({}, {jobs.ELASTIC: "true"})),
    *(changed(changed(JOBS["SparkApplication"], ("spec", "driver", "annotations"), {jobs.REQUIRED: level}),
              ("spec", "driver", "template", "metadata", "annotations"), {jobs.REQUIRED: other})
      for level, other in itertools.product(("rack", "a b"), repeat=2)),
    *(changed(JOBS["LeaderWorkerSet"], ("spec", "replicas"), count) for count in (-1, 0, 1_000_000, 1_000_001)),
]  # fmt: skip
ELASTIC_CLUSTER = marked(JOBS["RayCluster"], None, {jobs.ELASTIC: "true"})
for _path in jobs.TEMPLATES["RayCluster"]:
    ELASTIC_CLUSTER = changed(ELASTIC_CLUSTER, (*_path, "spec", "schedulingGates"), GATED)
OWN_RULES += [
    ELASTIC_CLUSTER,
    changed(changed(ELASTIC_CLUSTER, ("spec", "enableInTreeAutoscaling"), True), ("spec", "managedBy"), "kueue.x-k8s.io/multikueue"),
]  # fmt: skip


@pytest.mark.parametrize("manages_all", [False, True])
def test_rules_of_single_kinds_refuse_by_both_or_by_neither(manages_all):
    of = verdicts.settings(manages_all=manages_all)
    created = [(each,) for job in OWN_RULES for each in (job, marked(job, {}))]
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
    of = verdicts.settings(gate)
    created = [
        marked(JOBS[kind], None, {key: value})
        for kind in ("Job", "Pod", "RayJob", "Deployment")
        for key, value in (
            (jobs.GATES, "bad"),
            (jobs.PREBUILT, "Bad"),
            (jobs.PREBUILT, "B" * 70),
            (jobs.ELASTIC, "true"),
        )
    ]
    created += [placed(JOBS["Job"], {jobs.LAYERS: '[{"topology": "rack", "size": 1}]'})]
    assert disagreements([(obj,) for obj in created], of) == []


def test_a_queue_is_kept_where_there_is_a_default_queue():
    job = suspended(JOBS["Job"], value=True)
    assert verdicts.complaints(marked(job, {}), job, has_default_queue=True)
    (policy, binding) = [
        each for each in verdicts.policies() if each["metadata"]["name"].startswith("keep-queue-jobs-batch")
    ]
    conditions = [each["expression"] for each in policy["spec"]["matchConditions"]]
    values = {"object": marked(job, {}), "oldObject": job}
    assert all(verdicts.evaluate(text, values) for text in conditions)
    assert not any(verdicts.evaluate(text, {"object": job, "oldObject": job}) for text in conditions)
    assert binding["spec"]["paramRef"] == {"name": "default", "parameterNotFoundAction": "Allow"}


KEYS = {
    "labels": {
        jobs.QUEUE: ("lq", "", "Bad"), jobs.TIME: ("1", "0"), jobs.PREBUILT: ("w", ""), jobs.CLASS: ("high", ""),
        jobs.GROUP: ("g", "w"), jobs.MANAGED: ("true", "no"),
    },
    "annotations": {
        jobs.ELASTIC: ("true", "false"), jobs.GATES: ("a.io/b", "a.io/b,c.io/d", "x"), jobs.PREBUILT: ("w", "g"),
        jobs.LEAST: ("1", "9"), jobs.GROUP: ("g",), jobs.COUNT: ("1", "0"), jobs.REQUIRED: ("rack", "a b"),
        jobs.SLICE: ("rack",), jobs.SIZE: ("1", "7"), jobs.TOGETHER: ("g",), jobs.RETRIABLE: ("false",),
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
    assert verdicts.disagreement(new, old) is None


@pytest.mark.parametrize("kind", ["Job", "Pod", "Deployment", "RayJob", "TrainJob"])
def test_what_has_nothing_of_kueue_passes(kind):
    stranger = marked(JOBS[kind], {"app": "mine"}, {"note": "mine"})
    assert verdicts.refusals(stranger) == verdicts.refusals(stranger, stranger) == []
