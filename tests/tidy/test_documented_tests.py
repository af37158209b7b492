"""Every test that a document names exists."""

import ast
import re

import pytest
from tests.tidy.test_sizes import SOURCE

ROOT = SOURCE.parents[1]
DOCUMENTS = [*(ROOT / "docs").rglob("*.md"), ROOT / "ARCHITECTURE.md"]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
TESTS = sorted({match for path in DOCUMENTS for match in NAMED.findall(path.read_text())})


@pytest.mark.parametrize(("path", "name"), TESTS, ids=lambda value: value)
def test_a_named_test_exists(path, name):
    tree = ast.parse((ROOT / path).read_text())
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert not name or name in functions


def test_the_tables_of_attempts_name_their_tests():
    rows = [line for line in (ROOT / "docs" / "security.md").read_text().splitlines() if line.startswith("| ")]
    assert len(rows) > 20
    assert [row for row in rows if not NAMED.search(row) and not row.endswith(("---|", " test |"))] == []
