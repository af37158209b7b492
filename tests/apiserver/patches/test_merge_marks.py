"""The merge schemas of Kubernetes' own kinds agree with a cluster's OpenAPI documents.

`merge_marks.json.gz` has, for each kind and each path, how the list or object there merges.
`tools/kubernetes_types.py` writes it from the OpenAPI documents, not from the type files.
"""

import gzip
import json
from pathlib import Path

import pytest

from pykueue.api import registry
from pykueue.api.builtin import schemas
from pykueue.apiserver.patches import merge_schema

TABLES = json.loads(gzip.decompress(Path(__file__).with_name("merge_marks.json.gz").read_bytes()))
BUILTIN = [f"{kind.api_version} {kind.kind}" for kind in registry.scheme() if kind.is_builtin]


def at(kind, path):
    """The merge schema at a path such as `.spec.containers[].resources.limits{}`."""
    part = merge_schema.of_builtin(*kind.split(" "))
    for name in path.replace("[]", ".[]").replace("{}", ".{}").split(".")[1:]:
        part = part.item() if name == "[]" else part.child(name)
    return part


def mark(part, is_list):
    """What the patch code reads from a merge schema, in the words of the table."""
    if is_list:
        list_type = "map" if part.keys else "set" if part.is_set else "atomic"
        words = ["list", list_type, *part.keys]
    else:
        words = ["object", "atomic" if part.is_atomic else "granular"]
    if part.replaces:
        words.append("replace")
    if part.merge_key or part.merges_as_set:
        words += ["merge", part.merge_key]
    return " ".join(filter(None, words))


def expected(text):
    """The table's mark without `retainKeys`, which the patch itself states."""
    return text.replace("merge,retainKeys", "merge").replace(" retainKeys", "")


@pytest.mark.parametrize("kind", BUILTIN)
def test_every_mark_is_that_of_kubernetes(kind):
    marks = {path: mark(at(kind, path), text.startswith("list")) for path, text in TABLES[kind].items()}
    assert marks == {path: expected(text) for path, text in TABLES[kind].items()}


def paths(schema, path="", within=()):
    """The paths of all lists and objects of a schema; a type within itself is followed once."""
    if within.count(id(schema)) > 1:
        return
    below = {f".{name}": part for name, part in schema.get("properties", {}).items()}
    below |= {"{}": schema["additionalProperties"]} if "additionalProperties" in schema else {}
    below |= {"[]": schema["items"]} if "items" in schema else {}
    if below or schema.get("x-kubernetes-map-type") or schema.get("type") == "object":
        yield path
    for name, part in below.items():
        yield from paths(part, path + name, (*within, id(schema)))


@pytest.mark.parametrize("kind", BUILTIN)
def test_no_list_or_object_is_missing_or_made_up(kind):
    types = schemas.recursive_types()
    schema = types.schema(types.kinds[tuple(kind.split(" "))])
    assert set(paths(schema)) ^ TABLES[kind].keys() == set()


def test_the_table_is_not_empty():
    assert TABLES["v1 Pod"][".spec.volumes"] == "list map name merge,retainKeys name"
    assert sum(map(len, TABLES.values())) > 5_000
