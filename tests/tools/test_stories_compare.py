from tools.stories import compare


def recording(**fields):
    return {"story": "s", "events": [], "observations": [], **fields}


def observed(status):
    condition = {"type": "Admitted", "status": status, "message": "m"}
    return [{"label": "end", "workloads": {"Job/ns/a": {"conditions": [condition]}}}]


def paths(golden, recorded, *tolerances):
    return [difference.path for difference in compare.differences(golden, recorded, tolerances)]


def test_a_difference_names_its_path():
    golden, recorded = recording(observations=observed("True")), recording(observations=observed("False"))
    assert paths(golden, recorded) == ["/observations/end/workloads/Job|ns|a/conditions/Admitted/status"]


def test_an_absent_field_equals_an_empty_one():
    assert paths(recording(warnings={}), recording()) == []


def test_unstable_fields_and_events_are_not_compared():
    golden = recording(observations=observed("True"), unstable=["*/status"], unstableEvents=["Job/a *"])
    assert paths(golden, recording(observations=observed("False"), events=["Job/a Normal Started: x"])) == []


def test_missing_and_extra_events_are_differences():
    assert paths(recording(events=["a"]), recording(events=["b"])) == ["event missing", "event extra"]


def test_an_object_that_was_gone_before_it_was_seen_equals_any():
    named, other, unseen = "a (UID: <uid of wl Job/a>)", "a (UID: <uid of wl Job/b>)", "a (UID: <uid>)"
    assert paths(recording(events=[named]), recording(events=[unseen])) == []
    assert paths(recording(events=[unseen]), recording(events=[named])) == []
    assert paths(recording(events=[named]), recording(events=[other])) == ["event missing", "event extra"]


def test_messages_are_tolerated_on_request():
    golden, recorded = recording(events=["a: one"]), recording(events=["a: two"])
    assert paths(golden, recorded, "messages") == []


def test_consolidation_lists_what_differs_between_runs():
    golden = compare.consolidate([recording(observations=observed(status)) for status in ("True", "False")])
    assert golden["unstable"] == ["/observations/end/workloads/Job|ns|a/conditions/Admitted/status"]
    assert golden["runs"] == 2
