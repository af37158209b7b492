from hypothesis import given
from hypothesis import strategies as st

from pykueue.api import resources
from pykueue.kube.controller.writes import changes, merge_patch

VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=2), VALUES, max_size=4)


def merged(target, patch):
    """RFC 7386."""
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merged(result.get(name), value)
        else:
            result[name] = value
    return result


@given(OBJECTS, OBJECTS)
def test_the_patch_leads_from_old_to_new(old, new):
    assert merged(old, merge_patch(old, new)) == new


def test_status_is_written_before_the_rest():
    old = {"metadata": {"finalizers": ["f"]}, "status": {}}
    new = {"metadata": {}, "status": {"conditions": []}}
    assert [write.status for write in changes(resources.WORKLOAD, old, new)] == [True, False]


def test_no_change_needs_no_write():
    assert changes(resources.WORKLOAD, {"status": {"a": 1}}, {"status": {"a": 1}}) == []
