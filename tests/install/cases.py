"""Writes that every way of admission judges alike: the embedded API, the policies of a cluster, and webhooks."""

from tests.cli import malformed
from tests.install import jobs, test_queue_validations, test_workload_validations
from tests.install.jobs import changed, marked, placed, suspended

JOB = malformed.JOB
CREATED = [
    *test_queue_validations.CREATED,
    *(each for each in test_workload_validations.CREATED if "status" not in each),
    *(marked(JOB, labels) for labels in jobs.LABELS),
    *(marked(JOB, None, annotations) for annotations in jobs.ANNOTATIONS),
    *(placed(JOB, wish) for wish in jobs.PLACEMENTS),
]
UPDATED = [
    *test_queue_validations.UPDATED,
    *(
        (suspended(JOB, value=before), changed(suspended(JOB, value=after), ("metadata", "labels"), {key: value}))
        for before in (True, False)
        for after in (True, False)
        for key, value in ((jobs.QUEUE, "lq"), (jobs.QUEUE, "other"), (jobs.CLASS, "high"), (jobs.TIME, "5"))
    ),
]
