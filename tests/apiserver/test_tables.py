import pytest

from pykueue.api import registry
from pykueue.api.scheme import Column, Kind
from pykueue.apiserver.tables import ages, render

NOW = 1_000_000_000.0
CREATED = "2001-09-09T01:46:30Z"
"""Ten seconds before NOW."""


def kind(name, group="", **more):
    return Kind(group=group, version="v1", kind=name, plural=f"{name.lower()}s", namespaced=True, **more)


def printed(a_kind, obj, *, wide=False):
    obj = {"apiVersion": a_kind.api_version, "kind": a_kind.kind} | obj
    obj["metadata"] = {"name": "it", "creationTimestamp": CREATED} | obj.get("metadata", {})
    (row,) = render.rows(a_kind, [obj], NOW)
    headers = render.columns(a_kind)
    assert len(headers) == len(row["cells"])
    return {
        header["name"]: cell
        for header, cell in zip(headers, row["cells"], strict=True)
        if wide or header["priority"] == 0
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (601, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (47 * 3600, "47h"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_durations_have_at_most_two_units(seconds, text):
    assert ages.duration(seconds) == text


def test_a_running_pod():
    pod = {
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n1"},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "containerStatuses": [
                {"ready": True, "state": {"running": {}}},
                {
                    "ready": False,
                    "restartCount": 2,
                    "state": {"running": {}},
                    "lastState": {"terminated": {"finishedAt": CREATED}},
                },
            ],
        },
    }
    assert printed(kind("Pod"), pod, wide=True) == {
        "Name": "it",
        "Ready": "1/2",
        "Status": "Running",
        "Restarts": "2 (10s ago)",
        "Age": "10s",
        "IP": "10.0.0.1",
        "Node": "n1",
        "Nominated Node": "<none>",
        "Readiness Gates": "<none>",
    }


TERMINATED = {"terminated": {"exitCode": 1, "reason": "Error"}}


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        ({"status": {"phase": "Pending"}}, "Pending"),
        (
            {
                "status": {
                    "phase": "Pending",
                    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
                }
            },
            "SchedulingGated",
        ),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted"),
        ({"status": {"phase": "Failed", "containerStatuses": [{"state": TERMINATED}]}}, "Error"),
        (
            {"status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}},
            "ExitCode:3",
        ),
        (
            {"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}},
            "ErrImagePull",
        ),
        (
            {
                "spec": {"initContainers": [{"name": "a"}, {"name": "b"}]},
                "status": {"phase": "Pending", "initContainerStatuses": [{"name": "a", "state": {"running": {}}}]},
            },
            "Init:0/2",
        ),
        ({"status": {"phase": "Pending", "initContainerStatuses": [{"name": "a", "state": TERMINATED}]}}, "Init:Error"),
        ({"metadata": {"deletionTimestamp": CREATED}, "status": {"phase": "Running"}}, "Terminating"),
        ({"metadata": {"deletionTimestamp": CREATED}, "status": {"phase": "Succeeded"}}, "Succeeded"),
    ],
)
def test_pod_status(pod, status):
    assert printed(kind("Pod"), pod)["Status"] == status


@pytest.mark.parametrize(
    ("job", "cells"),
    [
        ({"spec": {"completions": 3}}, ("Running", "0/3", "")),
        ({"spec": {"parallelism": 2}}, ("Running", "0/1 of 2", "")),
        ({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}, ("Suspended", "0/1", "")),
        ({"status": {"startTime": CREATED}}, ("Running", "0/1", "10s")),
        (
            {
                "spec": {"completions": 1},
                "status": {
                    "succeeded": 1,
                    "startTime": CREATED,
                    "completionTime": "2001-09-09T01:46:33Z",
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            ("Complete", "1/1", "3s"),
        ),
    ],
)
def test_a_job(job, cells):
    row = printed(kind("Job", "batch"), job)
    assert (row["Status"], row["Completions"], row["Duration"]) == cells


def test_a_node():
    node = {
        "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}},
    }
    row = printed(kind("Node"), node)
    assert row == {"Name": "it", "Status": "Ready,SchedulingDisabled", "Roles": "worker", "Age": "10s", "Version": "v1"}


@pytest.mark.parametrize("group", ["", "events.k8s.io"])
def test_both_faces_of_an_event_print_alike(group):
    regarding = {"kind": "Workload", "name": "w"}
    if group:
        event = {"regarding": regarding, "note": "Quota reserved", "eventTime": CREATED}
    else:
        event = {"involvedObject": regarding, "message": "Quota reserved", "firstTimestamp": CREATED}
    assert printed(kind("Event", group), event | {"type": "Normal", "reason": "QuotaReserved"}) == {
        "Last Seen": "10s",
        "Type": "Normal",
        "Reason": "QuotaReserved",
        "Object": "workload/w",
        "Message": "Quota reserved",
    }


def test_declared_columns_follow_their_paths_and_types():
    columns = (
        Column(name="Queue", json_path=".spec.queueName"),
        Column(name="Admitted", json_path='.status.conditions[?(@.type=="Admitted")].status'),
        Column(name="Pods", json_path=".spec.pods", type="integer"),
        Column(name="Age", json_path=".metadata.creationTimestamp", type="date"),
    )
    obj = {"spec": {"queueName": "main", "pods": 3}}
    assert printed(kind("Workload", "kueue.x-k8s.io", columns=columns), obj) == {
        "Name": "it",
        "Queue": "main",
        "Admitted": None,
        "Pods": 3,
        "Age": "10s",
    }


def test_a_kind_without_columns_shows_name_and_age():
    assert printed(kind("Cohort", "kueue.x-k8s.io"), {}) == {"Name": "it", "Age": "10s"}


def test_every_builtin_printer_survives_an_empty_object():
    for group, name in render._BUILTIN:
        printed(kind(name, group), {}, wide=True)


def test_a_resumed_train_job_is_not_suspended():
    (train_job,) = [kind for kind in registry.scheme() if kind.kind == "TrainJob"]
    suspended = {"type": "Suspended", "status": "True"}
    assert printed(train_job, {"status": {"conditions": [suspended]}})["State"] == "Suspended"
    resumed = suspended | {"status": "False"}
    assert not printed(train_job, {"status": {"conditions": [resumed]}})["State"]
    complete = {"type": "Complete", "status": "True"}
    assert printed(train_job, {"status": {"conditions": [resumed, complete]}})["State"] == "Complete"


def test_a_disruption_budget():
    budget = {"spec": {"minAvailable": 2}, "status": {"disruptionsAllowed": 1}}
    assert printed(kind("PodDisruptionBudget", "policy"), budget) == {
        "Name": "it",
        "Min Available": "2",
        "Max Unavailable": "N/A",
        "Allowed Disruptions": 1,
        "Age": "10s",
    }
