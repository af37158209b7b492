import pytest

from pykueue.api import json_text
from pykueue.api.errors import ApiError
from pykueue.apiserver.http import bodies

BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (after, after, b",".join([b"*%c" % before] * 9))
    for before, after in zip(b"abcdefg", b"bcdefgh", strict=True)
)


def refusal(content_type, data):
    with pytest.raises(ApiError) as refused:
        bodies.decode_object(content_type, data)
    return refused.value.code


def test_json_is_read():
    assert bodies.decode_object("application/json; charset=utf-8", b'{"a": 1}') == ({"a": 1}, ())


def test_yaml_is_read():
    assert bodies.decode_object("application/yaml", b"a: [1, two]\n") == ({"a": [1, "two"]}, ())


def test_a_yaml_timestamp_stays_text_in_json():
    assert bodies.decode_object("application/yaml", b"a: 2024-01-01T00:00:00Z\n")[0] == {"a": "2024-01-01T00:00:00Z"}


def test_repeated_fields_are_told():
    _, faults = bodies.decode_object("", b'{"a":{"b":1,"b":2},"c":[{"d":1,"d":1}]}')
    assert faults == ('duplicate field "a.b"', 'duplicate field "c[0].d"')


@pytest.mark.parametrize(
    ("content_type", "data", "code"),
    [
        ("application/json", b"", 400),
        ("application/json", b"[1]", 400),
        ("application/json", b'{"a":', 400),
        ("application/json", b'{"a":"\xff\xfe"}', 400),
        ("application/json", b"[" * 100_000, 400),
        ("application/json", b"1e999999", 400),
        ("application/yaml", b"a: b: c", 400),
        ("application/yaml", b"\xff\xfe\x00", 400),
        ("application/yaml", BOMB, 400),
        ("application/yaml", b"[" * 5000, 400),
        ("application/yaml", b"? {a: b}\n: c\n", 400),
        ("application/yaml", b"!!python/object/apply:os.system [x]", 400),
        ("application/vnd.kubernetes.protobuf", b"{}", 400),
        ("text/html", b"{}", 415),
        ("application/json", b" " * (bodies.LIMIT_BYTES + 1), 413),
    ],
)
def test_bad_bodies_are_refused(content_type, data, code):
    assert refusal(content_type, data) == code


@pytest.mark.parametrize(
    "media",
    [
        "application/json",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/yaml",
    ],
)
@pytest.mark.parametrize(("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]")], ids=["objects", "lists"])
def test_what_is_nested_too_deep_is_refused_before_it_is_decoded(media, opening, closing):
    """Decoders, patches and validations call themselves for each level."""
    for levels in (json_text.DEEPEST + 1, 900):
        with pytest.raises(ApiError, match="nested more than") as refusal:
            bodies.decode(media, levels * opening + b"1" + levels * closing)
        assert refusal.value.code == 400
