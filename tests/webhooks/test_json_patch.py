import jsonpatch
from hypothesis import example, given
from hypothesis import strategies as st

from pykueue.webhooks.reviews import json_patch

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "a", "b/c", "d~e"]), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip
OBJECTS = st.dictionaries(st.sampled_from(["metadata", "spec", "a/b~c"]), VALUES, max_size=3)


@example({"spec": [True]}, {"spec": [1]})
@given(OBJECTS, OBJECTS)
def test_the_patch_makes_the_one_of_the_other(before, after):
    patched = jsonpatch.apply_patch(before, list(json_patch(before, after)))
    assert repr(sorted_fields(patched)) == repr(sorted_fields(after))


def sorted_fields(value):
    """With fields in one order; `repr` tells True from 1."""
    if isinstance(value, dict):
        return {name: sorted_fields(value[name]) for name in sorted(value)}
    return [sorted_fields(item) for item in value] if isinstance(value, list) else value


@given(OBJECTS)
def test_nothing_changed_is_an_empty_patch(value):
    assert not list(json_patch(value, value))
