"""Names, labels and buckets equal those in the source of Kueue v0.19.2 (`kueue_metrics.txt`)."""

from pathlib import Path

from pykueue.controllers.metrics.catalog import BUILD_INFO, CATALOG, MetricType

RECORDED = Path(__file__).with_name("kueue_metrics.txt").read_text().splitlines()


def _row(measure):
    labels = measure.labels if measure is BUILD_INFO else (*measure.labels, "replica_role")
    row = [measure.name, measure.kind.value, ",".join(labels)]
    if measure.kind is MetricType.HISTOGRAM:
        first, last = (f"{bound:g}" for bound in (measure.buckets[0], measure.buckets[-1]))
        row.append(f"{len(measure.buckets)}:{first}..{last}")
    return " ".join(row)


def test_every_metric_of_kueue_is_there_and_no_other():
    assert sorted(_row(measure) for measure in (*CATALOG.values(), BUILD_INFO)) == RECORDED
