"""Instruments keep their labelled children, and forget those of deleted objects."""

import pytest
from prometheus_client import generate_latest

from pykueue.api import resources
from pykueue.controllers.metrics import catalog
from pykueue.controllers.metrics.instruments import STANDALONE, CustomLabels, Instruments
from pykueue.kube.controller.cache import ObjectCache


def test_a_removed_sample_starts_again_at_zero():
    instruments = Instruments(CustomLabels(ObjectCache(), {}), role=STANDALONE)
    for _ in range(3):
        instruments.count("admitted_workloads_total", "queue", "high")
    instruments.remove({"cluster_queue": "queue"})
    instruments.count("admitted_workloads_total", "queue", "high")
    lines = [
        line
        for line in generate_latest(instruments.registry).decode().splitlines()
        if line.startswith("kueue_admitted_workloads_total{")
    ]
    assert len(lines) == 1
    assert lines[0].endswith(" 1.0")


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ({"name": "team"}, "red"),
        ({"name": "x", "sourceLabelKey": "team"}, "red"),
        ({"name": "x", "sourceAnnotationKey": "owner"}, "ada"),
        ({"name": "x", "sourceLabelKey": "team", "trackedValues": ["blue", "red"]}, "red"),
        ({"name": "x", "sourceLabelKey": "team", "trackedValues": ["blue"]}, "kueue.x-k8s.io/_UNTRACKED_VALUE_"),
        ({"name": "x", "sourceLabelKey": "team", "sourceKind": "Cohort"}, None),
    ],
)
def test_a_custom_label_is_read_as_the_configuration_says(entry, value):
    cache = ObjectCache()
    metadata = {"name": "cq", "labels": {"team": "red"}, "annotations": {"owner": "ada"}, "resourceVersion": "1"}
    cache.replace(resources.CLUSTER_QUEUE, [{"metadata": metadata}], "1")
    labels = CustomLabels(cache, {"featureGates": {"CustomMetricLabels": True}, "metrics": {"customLabels": [entry]}})
    measure = catalog.CATALOG["kueue_pending_workloads"]
    sample = dict.fromkeys(measure.labels, "") | {"cluster_queue": "cq"}
    assert labels.values(measure, list(sample.values())) == ([] if value is None else [value])
