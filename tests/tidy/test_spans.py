"""Only `times.span` makes a span of time from a number that a user may have written."""

import ast

import pytest
from tests.tidy.test_paths import is_constant
from tests.tidy.test_sizes import SOURCE, name_of

FOLDERS = ("apiserver", "cluster", "controllers")
ADMINISTRATOR = SOURCE / "cluster" / "autoscaler" / "pool.py"
"""Reads the annotations of node pools, which administrators write."""
MODULES = sorted(path for folder in FOLDERS for path in (SOURCE / folder).rglob("*.py") if path != ADMINISTRATOR)


def spans(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "timedelta":
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            if not all(is_constant(value) or ast.unparse(value).strip("_").isupper() for value in values):
                yield node


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_variable_number_becomes_a_span_of_any_length(path):
    calls = [f"{path.name}:{node.lineno} {ast.unparse(node)}" for node in spans(ast.parse(path.read_text()))]
    assert calls == [], "use pykueue.api.times.span"


@pytest.mark.parametrize("code", ["timedelta(seconds=deadline)", "dt.timedelta(0, int(text))"])
def test_the_rule_finds_a_span(code):
    assert len(list(spans(ast.parse(code)))) == 1
