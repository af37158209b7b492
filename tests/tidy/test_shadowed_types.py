"""No field has the name of a type that its class uses in annotations.

Python 3.14 evaluates annotations when they are used, and looks their names up in the class first:
there `object: dict[str, object]` means the field.
"""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pykueue"


def shadowed(text):
    """Line and name of each type that a field or a method of its class hides."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef):
            continue
        fields = [entry for entry in node.body if isinstance(entry, ast.AnnAssign)]
        methods = [entry for entry in node.body if isinstance(entry, ast.FunctionDef | ast.AsyncFunctionDef)]
        names = {ast.unparse(field.target) for field in fields} | {method.name for method in methods}
        for field in fields:
            types = {part.id for part in ast.walk(field.annotation) if isinstance(part, ast.Name)}
            yield from ((field.lineno, name) for name in sorted(types & names))


def test_no_field_hides_a_type():
    found = [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in shadowed(path.read_text())
    ]
    assert found == []


def test_a_hidden_type_is_found():
    assert list(shadowed("class A:\n    object: dict[str, object]\n    name: str\n")) == [(2, "object")]
