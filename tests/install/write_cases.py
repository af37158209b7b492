"""Writes that the embedded API, the policies and the webhooks must all judge alike."""

from tests.cli import malformed
from tests.install import job_objects, test_queue_validations, test_workload_validations
from tests.install.job_objects import changed, marked, placed, suspended

JOB = malformed.JOB
CREATED = [
    *test_queue_validations.CREATED,
    *(workload for workload in test_workload_validations.CREATED if "status" not in workload),
    *(marked(JOB, labels) for labels in job_objects.LABELS),
    *(marked(JOB, None, annotations) for annotations in job_objects.ANNOTATIONS),
    *(placed(JOB, annotations) for annotations in job_objects.PLACEMENTS),
]
UPDATED = [
    *test_queue_validations.UPDATED,
    *(
        (suspended(JOB, value=before), changed(suspended(JOB, value=after), ("metadata", "labels"), {key: value}))
        for before in (True, False)
        for after in (True, False)
        for key, value in (
            (job_objects.QUEUE, "lq"),
            (job_objects.QUEUE, "other"),
            (job_objects.CLASS, "high"),
            (job_objects.TIME, "5"),
        )
    ),
]
