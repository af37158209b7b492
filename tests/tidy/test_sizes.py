"""The house's limits: they only tighten. An exception is listed with its reason, and the list only shrinks."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pykueue"
MODULES = sorted(SOURCE.rglob("*.py"))

MODULE_LINES = 500
FUNCTION_LINES = 70
POSITIONAL_PARAMETERS = 4

EXCEPTIONS: dict[str, str] = {}
"""`path` or `path:function` to the reason why it may exceed a limit."""


def functions(path):
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def name_of(path, node=None):
    return path.relative_to(SOURCE).as_posix() + (f":{node.name}" if node else "")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_sizes(path):
    faults = []
    if len(path.read_text().splitlines()) > MODULE_LINES:
        faults.append(name_of(path))
    for node in functions(path):
        positional = [argument for argument in node.args.args if argument.arg not in ("self", "cls")]
        if node.end_lineno - node.lineno + 1 > FUNCTION_LINES or len(positional) > POSITIONAL_PARAMETERS:
            faults.append(name_of(path, node))
    assert [fault for fault in faults if fault not in EXCEPTIONS] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_no_module_is_called_after_nothing():
    assert [
        path for path in MODULES if path.stem in {"utils", "util", "helpers", "common", "misc", "base", "manager"}
    ] == []


def test_every_exception_is_still_needed():
    known = {name_of(path) for path in MODULES} | {name_of(path, node) for path in MODULES for node in functions(path)}
    assert set(EXCEPTIONS) <= known
