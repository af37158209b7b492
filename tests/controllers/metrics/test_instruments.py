"""Instruments keep their labelled children, and forget those of deleted objects."""

from prometheus_client import generate_latest

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
