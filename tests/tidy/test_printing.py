"""Only `cli/output.py` prints: it escapes what a terminal would obey."""

import ast

import pytest
from tests.tidy.test_sizes import SOURCE, name_of

PRINTERS = (SOURCE / "cli" / "output.py",)
RAW = {"cli/logs.py": "the output of containers is copied as it is, as kubectl logs does"}
MODULES = sorted(path for folder in ("cli", "app") for path in (SOURCE / folder).rglob("*.py") if path not in PRINTERS)
CALLS = {"click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_text_is_printed_by_one_function(path):
    calls = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS
    ]
    assert calls == [] or name_of(path) in RAW
