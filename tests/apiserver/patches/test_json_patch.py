import pytest

from pykueue.api.errors import ApiError
from pykueue.apiserver.patches import json_patch


def test_replacing_what_is_not_there_adds_it():
    patch = [{"op": "replace", "path": "/data/b", "value": "2"}]
    assert json_patch.apply({"data": {"a": "1"}}, patch) == {"data": {"a": "1", "b": "2"}}


def test_a_patch_leaves_what_it_was_made_from():
    before = {"data": {"a": "1"}}
    json_patch.apply(before, [{"op": "replace", "path": "/data/b", "value": "2"}])
    assert before == {"data": {"a": "1"}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/a", "value": "2"},
        {"op": "remove", "path": "/data/b"},
        {"op": "replace", "path": "/no/where", "value": "2"},
    ],
)
def test_a_patch_that_does_not_apply_is_refused_without_saying_why(operation):
    with pytest.raises(ApiError) as refused:
        json_patch.apply({"data": {"a": "1"}}, [operation])
    assert (refused.value.code, refused.value.message) == (
        422,
        "the server rejected our request due to an error in our request",
    )
