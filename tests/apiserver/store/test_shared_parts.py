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


def test_equal_labels_are_one_value():
    first, second = stored("a", labels={"x": "1"}), stored("b", labels={"x": "1"})
    assert first.meta.labels is second.meta.labels
    assert (first.meta.uid, second.meta.uid) == ("a", "b")
    assert stored("c", labels={"x": "2"}).meta.labels == {"x": "2"}


def test_few_specs_are_remembered(monkeypatch):
    monkeypatch.setattr(rows, "_MOST_SHARED", 4)
    parts = rows._SharedParts()
    for number in range(20):
        data = json.dumps({"metadata": {}, "spec": {"text": "x" * 100, "number": number}}).encode()
        assert parts.decode(data)["spec"]["number"] == number
    assert len(parts._specs) == 4
