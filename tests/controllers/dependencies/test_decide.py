"""A Job that waits for other Jobs leaves its gate when they have ended as they should."""

import pytest

from pykueue.api.labels import ADMISSION_GATED_BY, AFTER
from pykueue.controllers.dependencies import decide
from pykueue.kube.controller.writes import Event, Patch

RUNNING: list[str] = []
COMPLETE, FAILED = ["Complete"], ["Failed"]


def waiting(after, gates=AFTER):
    return {"metadata": {"name": "next", "namespace": "ml", "annotations": {AFTER: after, ADMISSION_GATED_BY: gates}}}


def ended(types):
    return {
        "metadata": {"name": "first"},
        "status": {"conditions": [{"type": type_, "status": "True"} for type_ in types]},
    }


def actions(after, types):
    return decide.plan(waiting(after), lambda _name: None if types is None else ended(types)).actions


@pytest.mark.parametrize(
    ("after", "types"), [("ok:first", COMPLETE), ("first", COMPLETE), ("notok:first", FAILED), ("any:first", FAILED)]
)
def test_gate_is_removed(after, types):
    [patch, event] = actions(after, types)
    assert isinstance(patch, Patch)
    assert patch.patch == {"metadata": {"annotations": {ADMISSION_GATED_BY: None}}}
    assert isinstance(event, Event)
    assert event.reason == "DependenciesEnded"


@pytest.mark.parametrize("after", ["ok:first", "notok:first", "any:first"])
def test_running_job_is_waited_for(after):
    assert actions(after, RUNNING) == ()


@pytest.mark.parametrize(
    ("after", "types", "message"),
    [
        ("ok:first", FAILED, "Job first ended as Failed"),
        ("notok:first", COMPLETE, "Job first ended as Complete"),
        ("ok:first", None, "Job first does not exist"),
        ("later:first", COMPLETE, "'later' in annotation"),
    ],
)
def test_dependency_that_is_never_satisfied_is_reported(after, types, message):
    [event] = actions(after, types)
    assert isinstance(event, Event)
    assert event.reason == "DependencyNeverSatisfied"
    assert event.message.startswith(message)


def test_deleted_job_has_ended():
    assert len(actions("any:first", None)) == 2


def test_other_gates_stay():
    plan = decide.plan(waiting("any:first", gates=f"example.com/data,{AFTER}"), lambda _name: ended(COMPLETE))
    patch = plan.actions[0]
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"]["annotations"] == {ADMISSION_GATED_BY: "example.com/data"}


def test_job_without_the_gate_is_left_alone():
    assert decide.plan(waiting("ok:first", gates="example.com/data"), lambda _name: None).actions == ()
