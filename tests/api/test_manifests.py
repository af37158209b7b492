import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api import manifests

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
)


def objects(text):
    documents, faults = manifests.read(text)
    assert faults == []
    return [document.object for document in documents]


def fault(data):
    documents, (only,) = manifests.read(data, "f.yaml")
    assert documents == []
    return str(only)


def test_documents_know_their_lines():
    documents, _ = manifests.read("# about\n---\n# first\nkind: A\n---\n---\nkind: B\n")
    assert [(document.object["kind"], document.line) for document in documents] == [("A", 4), ("B", 7)]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("spec", 2),
        ("spec.x[1].b", 5),
        ("spec.labels[a.b/c]", 7),
        ("spec.labels.a.b/c", 7),
        ("spec.x[1].missing", 4),
        ("<nil>", 1),
    ],
)
def test_the_line_of_a_field_or_its_nearest_ancestor(path, line):
    (document,), _ = manifests.read("kind: A\nspec:\n  x: [1,\n    {a: 1,\n     b: 2}]\n  labels:\n    a.b/c: d\n")
    assert document.line_of(path) == line


def test_a_list_is_taken_apart():
    documents, _ = manifests.read("kind: List\nitems:\n- kind: A\n- kind: B\n  spec: {}\n")
    assert [(document.object["kind"], document.line, document.line_of("spec")) for document in documents] == [
        ("A", 3, 3),
        ("B", 4, 5),
    ]


def test_a_broken_document_does_not_hide_the_others():
    documents, faults = manifests.read("kind: A\n---\n{broken\n---\nkind: C\n")
    assert ([document.object["kind"] for document in documents], len(faults)) == (["A", "C"], 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("off", False), ("y", True), ("0644", 420), ("0x10", 16), ("1_000", 1000), ("1e3", 1000), ("1.5", 1.5),
        ("2026-01-01", "2026-01-01"), ("12:30:45", "12:30:45"), ("~", None), ("", None), ("'yes'", "yes"), ("!!str 1", "1"),
        ("1Gi", "1Gi"), ("-", [None]), ("1.2.3", "1.2.3"), ("+5", 5), ("08", 8), (".", "."),
    ],
)  # fmt: skip
def test_values_are_read_as_kubectl_reads_them(text, value):
    assert objects(f"v: {text}\n" if text != "-" else "v:\n-\n") == [{"v": value}]


def test_keys_become_text():
    assert objects("1: a\ntrue: b\n") == [{"1": "a", "true": "b"}]


def test_a_merge_key_yields_to_what_is_written():
    (value,) = objects("base: &base {a: 1, b: 2}\nuse: {<<: *base, b: 3}\n")
    assert value["use"] == {"a": 1, "b": 3}


def test_an_alias_is_a_copy():
    (value,) = objects("a: &x {n: 1}\nb: *x\n")
    assert value["a"] is not value["b"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a: 1\na: 2\n", "f.yaml:2: key 'a' is written twice"),
        ("a: &x [*x]\n", "f.yaml:1: alias *x names nothing above it"),
        (BOMB, "f.yaml:5: aliases repeat too much of the document"),
        ("a: " + "[" * 100_000, "f.yaml:1: nested more than 128 levels deep"),
        (b"a: 1\nb: \xff\n", "f.yaml:2: not UTF-8 text: byte 0xff"),
        ("- 1\n", "f.yaml:1: a manifest is a mapping with apiVersion, kind and metadata"),
        ("x: .inf\n", "f.yaml:1: .inf cannot be written as JSON"),
        ("x: !!python/object:os.system a\n", "f.yaml:1: tag tag:yaml.org,2002:python/object:os.system is not known here"),
        ("? [1, 2]\n: 3\n", "f.yaml:1: a key must be a plain text"),
        ("a:\n\tb: 1\n", "f.yaml:2: not YAML: while scanning for the next token found character that cannot start any token"),
        ("a: \x00\n", "f.yaml:1: not YAML: unacceptable character #x0000: control characters are not allowed"),
    ],
    ids=range(11),
)  # fmt: skip
def test_a_hostile_file_is_a_fault_with_a_place(data, message):
    assert fault(data) == message


def test_a_huge_file_is_refused():
    assert fault(" " * (manifests.LARGEST_BYTES + 1)) == "f.yaml:1: the file is larger than 64 MiB"


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(data):
    documents, faults = manifests.read(data)
    assert all(isinstance(document.object, dict) for document in documents)
    assert all(document.line >= 1 for document in faults)


TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, JSON))
def test_json_is_read_as_json(value):
    assert objects(json.dumps(value)) == [value]
