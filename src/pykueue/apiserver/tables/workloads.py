"""The columns of kinds that create pods: Jobs, CronJobs, Deployments, StatefulSets and others."""

from typing import Any

from pykueue.api import conditions, objects
from pykueue.api.scheme import Object
from pykueue.apiserver.tables import ages, printer
from pykueue.apiserver.tables.printer import count, text, value

_JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""A condition and its STATUS; the first match wins. "" means that the Job is being deleted."""


def _template_cells(obj: Object) -> list[Any]:
    return printer.containers(objects.nested(obj, "spec", "template"))


def _selector(obj: Object) -> str:
    return printer.label_selector(objects.nested(obj, "spec", "selector"))


def _job(job: Object, now: float) -> list[Any]:
    return [
        objects.name(job),
        _job_status(job),
        _job_completions(job),
        _job_duration(job, now),
        printer.age(job, now),
        *_template_cells(job),
        _selector(job),
    ]


def _job_status(job: Object) -> str:
    for condition, word in _JOB_STATES:
        if conditions.is_true(job, condition) if condition else objects.is_deleted(job):
            return word
    return "Running"


def _job_completions(job: Object) -> str:
    succeeded = count(job, "status", "succeeded")
    completions = value(job, "spec", "completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = count(job, "spec", "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: float) -> str:
    started = ages.parse(value(job, "status", "startTime"))
    if started is None:
        return ""
    ended = ages.parse(value(job, "status", "completionTime"))
    return ages.duration((now if ended is None else ended) - started)


def _cron_job(job: Object, now: float) -> list[Any]:
    last = value(job, "status", "lastScheduleTime")
    return [
        objects.name(job),
        text(job, "spec", "schedule"),
        text(job, "spec", "timeZone", absent=printer.NONE),
        "True" if value(job, "spec", "suspend") else "False",
        len(objects.nested_list(job, "status", "active")),
        ages.age(last, now) if last else printer.NONE,
        printer.age(job, now),
        *printer.containers(objects.nested(job, "spec", "jobTemplate", "spec", "template")),
        printer.label_selector(objects.nested(job, "spec", "jobTemplate", "spec", "selector")),
    ]


def _replica_set(obj: Object, now: float) -> list[Any]:
    return [
        objects.name(obj),
        count(obj, "spec", "replicas"),
        count(obj, "status", "replicas"),
        count(obj, "status", "readyReplicas"),
        printer.age(obj, now),
        *_template_cells(obj),
        _selector(obj),
    ]


def _replication_controller(obj: Object, now: float) -> list[Any]:
    return [*_replica_set(obj, now)[:-1], printer.labels(objects.nested(obj, "spec", "selector"))]


def _deployment(obj: Object, now: float) -> list[Any]:
    return [
        objects.name(obj),
        f"{count(obj, 'status', 'readyReplicas')}/{count(obj, 'spec', 'replicas')}",
        count(obj, "status", "updatedReplicas"),
        count(obj, "status", "availableReplicas"),
        printer.age(obj, now),
        *_template_cells(obj),
        _selector(obj),
    ]


def _stateful_set(obj: Object, now: float) -> list[Any]:
    ready = f"{count(obj, 'status', 'readyReplicas')}/{count(obj, 'spec', 'replicas')}"
    return [objects.name(obj), ready, printer.age(obj, now), *_template_cells(obj)]


def _daemon_set(obj: Object, now: float) -> list[Any]:
    return [
        objects.name(obj),
        count(obj, "status", "desiredNumberScheduled"),
        count(obj, "status", "currentNumberScheduled"),
        count(obj, "status", "numberReady"),
        count(obj, "status", "updatedNumberScheduled"),
        count(obj, "status", "numberAvailable"),
        printer.labels(objects.nested(obj, "spec", "template", "spec", "nodeSelector")),
        printer.age(obj, now),
        *_template_cells(obj),
        _selector(obj),
    ]


_TEMPLATE = ("~Containers", "~Images", "~Selector")
_REPLICAS = printer.headers("Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", *_TEMPLATE)

PRINTERS = {
    ("batch", "Job"): printer.Printer(
        printer.headers("Name", "Status", "Completions", "Duration", "Age", *_TEMPLATE), _job
    ),
    ("batch", "CronJob"): printer.Printer(
        printer.headers(
            "Name", "Schedule", "Timezone", "Suspend:boolean", "Active:integer", "Last Schedule", "Age", *_TEMPLATE
        ),
        _cron_job,
    ),
    ("apps", "ReplicaSet"): printer.Printer(_REPLICAS, _replica_set),
    ("", "ReplicationController"): printer.Printer(_REPLICAS, _replication_controller),
    ("apps", "Deployment"): printer.Printer(
        printer.headers("Name", "Ready", "Up-to-date:integer", "Available:integer", "Age", *_TEMPLATE), _deployment
    ),
    ("apps", "StatefulSet"): printer.Printer(
        printer.headers("Name", "Ready", "Age", "~Containers", "~Images"), _stateful_set
    ),
    ("apps", "DaemonSet"): printer.Printer(
        printer.headers(
            "Name",
            "Desired:integer",
            "Current:integer",
            "Ready:integer",
            "Up-to-date:integer",
            "Available:integer",
            "Node Selector",
            "Age",
            *_TEMPLATE,
        ),
        _daemon_set,
    ),
}
