"""Plain words: names say what a thing is, each public class name has one meaning, and prose fits the page."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pykueue"
MODULES = sorted(SOURCE.rglob("*.py"))

PROSE_COLUMNS = 99

BANNED_NAMES = frozenset((Path(__file__).parent / "banned_names.txt").read_text().split())
"""Names that say how a value came, or words that Kubernetes, Kueue and Python do not use for the thing."""

API_TYPES = ("api/kueue/", "api/configuration/", "api/meta.py")
"""Declarations of API types are named by the API; the engine has values of the same names."""

SHARED_CLASS_NAMES: dict[str, str] = {}
"""A public class name that occurs twice, and why."""


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def bound_names(tree):
    """Every (name, line) that a module binds: variables, parameters, attributes, functions and classes."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.ClassDef(name=name):
                yield name, node.lineno


def test_names_say_what_a_thing_is():
    names = [(path, *bound) for path in MODULES for bound in bound_names(ast.parse(path.read_text()))]
    banned = [f"{name_of(path)}:{line} {name}" for path, name, line in names if name.strip("_").lower() in BANNED_NAMES]
    assert banned == []


def test_a_public_class_name_has_one_meaning():
    modules = defaultdict(list)
    for path in MODULES:
        module = path.relative_to(SOURCE).as_posix()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not module.startswith(API_TYPES):
                modules[node.name].append(module)
    assert {
        name: places for name, places in modules.items() if len(places) > 1 and name not in SHARED_CLASS_NAMES
    } == {}


def is_statement(token):
    """Whether the string begins its line: a docstring does, an assigned text does not."""
    return not token.line[: token.start[1]].strip()


def prose_lines(source):
    """Every (line number, text, first column) of comments and docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_comment = token.type == tokenize.COMMENT and not token.string.startswith("# noqa")
        is_docstring = token.type == tokenize.STRING and token.string.startswith('"""') and is_statement(token)
        if is_comment or is_docstring:
            for number, text in enumerate(token.string.splitlines()):
                yield token.start[0] + number, text, token.start[1] if number == 0 else 0


def test_prose_fits_the_page():
    lines = [(path, *line) for path in MODULES for line in prose_lines(path.read_text())]
    long = [f"{name_of(path)}:{number}" for path, number, text, column in lines if column + len(text) > PROSE_COLUMNS]
    assert long == []


def test_every_invariant_names_a_test_that_exists():
    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    packages = [path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()]
    invariants = re.findall(r"\*\*Invariant:\*\*.*?(?=\n\n|\Z)", architecture, re.DOTALL)
    assert len(invariants) >= len(packages)
    for invariant in invariants:
        tests = re.findall(r"`(tests/[^`]+)`", invariant)
        assert tests or "import-linter" in invariant, f"names no test: {invariant}"
        assert [test for test in tests if not (ROOT / test).exists()] == []
