import pytest

from pykueue.api import selector_text, selectors
from pykueue.api.errors import ApiError

LABELS = {"app": "web", "tier": "a", "size": "7"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("!other", True),
        ("app=web", True),
        ("app == web", True),
        ("app!=web", False),
        ("other!=x", True),
        ("app=web,tier=b", False),
        ("tier in (a, b),app", True),
        ("tier notin (a,b)", False),
        ("other notin (a)", True),
        ("size>6", True),
        ("size<7", False),
        ("app>1", False),
        ("kubernetes.io/name=", False),
    ],
)
def test_label_selector(text, expected):
    assert selectors.matches(selectors.parse_labels(text), LABELS) is expected


@pytest.mark.parametrize("text", ["a b", "=x", "a=b c", "-a=b", "a=-b", "a in b", "a,,b", "A/b/c=d"])
def test_malformed_label_selector_is_a_bad_request(text):
    with pytest.raises(ApiError) as refusal:
        selectors.parse_labels(text)
    assert refusal.value.code == 400


def test_selector_object():
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    assert selectors.matches(selectors.from_object(selector), LABELS)


def test_absent_selector_object_is_told_from_an_empty_one():
    assert (selectors.from_object(None), selectors.from_object({})) == (None, ())


def test_field_selector_compares_text():
    requirement = selectors.parse_fields("spec.unschedulable=true", {"spec.unschedulable"})[0]
    assert requirement.matches(selectors.field_value({"spec": {"unschedulable": True}}, requirement.path))


def test_unsupported_field_is_refused():
    with pytest.raises(ApiError, match=r"field label not supported: spec\.x"):
        selectors.parse_fields("spec.x=1", {"metadata.name"})


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (selectors.parse_labels, "a" * (selector_text.LONGEST_TEXT + 1)),
        (selectors.parse_labels, ",".join(["a"] * (selector_text.MOST_REQUIREMENTS + 1))),
        (lambda text: selectors.parse_fields(text, {"a"}), "a=" + "b" * selector_text.LONGEST_TEXT),
        (lambda text: selectors.parse_fields(text, {"a"}), ",".join(["a=b"] * (selector_text.MOST_REQUIREMENTS + 1))),
    ],
    ids=["long labels", "many labels", "long fields", "many fields"],
)
def test_a_selector_is_short(parse, text):
    """Every object is compared with every requirement."""
    with pytest.raises(ApiError, match="the selector has"):
        parse(text)
