"""Only `cluster/paths.py` joins a variable string to a path: names of users never become paths."""

import ast

import pytest
from tests.tidy.test_sizes import SOURCE, name_of

FOLDERS = ("cluster", "app/kubelet_api")
PATHS = SOURCE / "cluster" / "paths.py"
MODULES = sorted(path for folder in FOLDERS for path in (SOURCE / folder).rglob("*.py") if path != PATHS)
JOINS = {"joinpath", "with_name", "with_suffix", "with_stem", "relative_to"}


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_constant(node):
    """A literal, or a name in capitals: of a number in an arithmetic division, of a file name in a join."""
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def is_number(node):
    """A quotient: the divisor is a length, or an amount of a mapping."""
    is_length = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
    return is_length or isinstance(node, ast.Subscript)


def is_process_file(node):
    """`/proc/PID/…`, where PID is a number of the kernel."""
    start = node.values[0] if isinstance(node, ast.JoinedStr) else None
    return isinstance(start, ast.Constant) and str(start.value).startswith("/proc/")


def joins(tree):
    """The joins of a path with something that is not a constant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            if not is_constant(node.right) and not is_number(node.right):
                yield node
        elif isinstance(node, ast.Call) and not all(is_constant(argument) for argument in node.args):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            is_join = isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "os.path.join"
            is_path = name == "Path" and not is_process_file(node.args[0])
            if is_join or is_path or name in JOINS:
                yield node


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_variable_string_becomes_a_path(path):
    found = [f"{path.name}:{node.lineno} {ast.unparse(node)}" for node in joins(ast.parse(path.read_text()))]
    assert found == [], "use pykueue.cluster.paths"


@pytest.mark.parametrize(
    "code", ["root / name", "root / f'{name}.json'", "root.joinpath(name)", "Path(text)", "os.path.join(root, name)"]
)
def test_the_rule_finds_a_join(code):
    assert len(list(joins(ast.parse(code)))) == 1


@pytest.mark.parametrize("code", ["root / 'log'", "root / _PODS", "now / SECOND_NS", "total / len(values)"])
def test_the_rule_accepts_constants_and_quotients(code):
    assert list(joins(ast.parse(code))) == []
