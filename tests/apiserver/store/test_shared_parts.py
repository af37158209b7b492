"""Equal specs and labels are one value in memory, and every object is decoded as it was stored."""

import json

from pykueue.apiserver.store import rows
from pykueue.apiserver.store.rows import Stored, StoreKey

SPEC = {"queueName": "main", "podSets": [{"name": "main", "count": 3, "template": {"spec": {"containers": []}}}]}


def stored(name, *, spec=SPEC, labels=None, **fields):
    managers = [{"manager": "test", "fieldsV1": {"f:spec": {}}}]
    metadata = {"name": name, "uid": name, "labels": labels or {}, "managedFields": managers}
    obj = {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, "spec": spec, **fields}
    return Stored.of(StoreKey("", "things", "", name), 1, rows.encode(obj))


def test_equal_specs_are_one_value():
    first, second = stored("a"), stored("b", status={"phase": "Running"})
    assert first.shared()["spec"] is second.shared()["spec"]


def test_different_specs_stay_different():
    other = {**SPEC, "queueName": "other"}
    assert stored("a").shared()["spec"] == SPEC
    assert stored("b", spec=other).shared()["spec"] == other


def test_a_copy_of_ones_own_shares_nothing():
    first = stored("a")
    first.decode_unmanaged()["spec"]["queueName"] = "changed"
    first.decode()["spec"]["queueName"] = "changed"
    assert stored("b").shared()["spec"] == SPEC


def test_the_shared_copy_is_the_object_without_managers():
    obj = stored("a", labels={"x": "1"}, status={"text": 'a "quoted" {brace}'}, data=None)
    expected = json.loads(obj.data)
    del expected["metadata"]["managedFields"]
    assert obj.shared() == expected == obj.decode_unmanaged()


def test_equal_conditions_and_admissions_are_one_value():
    condition = {"type": "Admitted", "status": "True", "reason": "Admitted", "message": "The workload is admitted"}
    admission = {"clusterQueue": "shared", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "default"}}]}
    status = {"conditions": [condition], "admission": admission}
    first, second = (stored(name, status=status).shared()["status"] for name in "ab")
    assert first == second == status
    assert first["conditions"][0] is second["conditions"][0]
    assert first["admission"] is second["admission"]
    assert first["conditions"] is not second["conditions"]


def test_a_status_of_any_form_is_decoded():
    for status in ("text", None, [], {}, {"conditions": None}, {"conditions": {"a": 1}}, {"admission": None}):
        assert stored("a", status=status).shared()["status"] == status


def test_equal_labels_are_one_value():
    first, second = stored("a", labels={"x": "1"}), stored("b", labels={"x": "1"})
    assert first.meta.labels is second.meta.labels
    assert (first.meta.uid, second.meta.uid) == ("a", "b")
    assert stored("c", labels={"x": "2"}).meta.labels == {"x": "2"}


def test_large_specs_are_not_remembered():
    parts = rows._SharedParts()
    data = json.dumps({"metadata": {}, "spec": {"text": "x" * 10_000}}).encode()
    assert parts.decode(data)["spec"] == {"text": "x" * 10_000}
    assert not parts._specs


def test_few_specs_are_remembered(monkeypatch):
    monkeypatch.setattr(rows, "_MOST_SHARED", 4)
    parts = rows._SharedParts()
    for number in range(20):
        data = json.dumps({"metadata": {}, "spec": {"text": "x" * 100, "number": number}}).encode()
        assert parts.decode(data)["spec"]["number"] == number
    assert len(parts._specs) == 4


def test_no_decoded_copy_of_an_event_is_kept():
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a", "uid": "a"}, "reason": "Created"}
    stored_event = Stored.of(StoreKey("", "events", "default", "a"), 1, rows.encode(event))
    assert stored_event.shared() == event
    assert stored_event.shared() is not stored_event.shared()
    assert stored("a").shared()["spec"] is stored("a").shared()["spec"]
