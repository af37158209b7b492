r"""Every regular expression in the source is linear on any text.

Python's engine tries again from every position and with every shorter repetition. So each
expression is searched in long texts that repeat what it could match, followed by what it cannot.
A quadratic expression needs a hundred times longer than a linear one.
"""

import ast
import itertools
import re
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pykueue"
FUNCTIONS = ("compile", "match", "search", "fullmatch", "sub", "split", "findall", "finditer")
ANCHORED = ("match", "fullmatch")
LENGTH = 6000
LONGEST_SECONDS = 0.02
PIECES = [
    "a", "A", "1", " ", "-", ".", ",", "/", "_", "\\", '"', "'", "(", ")", "[", "]", "{", "}", "=", "!", "<", ">", ":", "@",
    "$", "#", "%", "\n", "\t", "a.", "a-", "1h", "1.", "a ", "a,", "a=", " =", "\\\\", '\\"', "''", "()", "$(", "`a", "sleep ",
    "sleep 1", "?(@", "?(@a=", "{a", "{'", "[a", "[1]", ".a", "-----BEGIN CERTIFICATE-----", "(?i)", "a workload (UID: ",
    "map ", "transform", "---\n", "v1", "metadata.labels['",
]  # fmt: skip
ENDS = ("", "\x00")
BOUNDED = {
    "_PART": "durations: only after the whole text has matched, which has at most 256 characters",
    "_DURATION": "schedules: only after the whole text has matched",
    "_FILTER": "paths of columns have at most 512 characters",
    "_PREEMPTOR": "messages are cut before they are searched",
}
"""Expressions that see short texts only, by the name of their variable."""


def functions_of(name, source):
    """The methods that a module calls on a compiled expression."""
    return set(re.findall(rf"\b{name}\.({'|'.join(FUNCTIONS)})\(", source))


def expressions():
    """(place, expression, whether it is only matched from the start) of each constant."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text()
        tree = ast.parse(source)
        names = {
            id(node.value): target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        texts = {names[id(node)]: text_of(node) for node in ast.walk(tree) if id(node) in names}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in FUNCTIONS or ast.unparse(node.func.value) != "re":
                continue
            first, name = node.args[0], names.get(id(node), "")
            text = text_of(first) or texts.get(getattr(first, "id", ""))
            used = functions_of(name, source) if node.func.attr == "compile" else {node.func.attr}
            if isinstance(text, str) and name not in BOUNDED:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", text, used <= set(ANCHORED)


def text_of(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


EXPRESSIONS = list(expressions())


def slowest(text, *, is_anchored):
    compiled = re.compile(text)
    call = compiled.fullmatch if is_anchored else compiled.search
    worst = (0.0, "")
    for piece, end in itertools.product(PIECES, ENDS):
        attack = piece * (LENGTH // len(piece)) + end
        began = time.thread_time()
        call(attack)
        worst = max(worst, (time.thread_time() - began, f"{piece!r} × n + {end!r}"))
    return worst


@pytest.mark.parametrize(("place", "text", "is_anchored"), EXPRESSIONS, ids=[place for place, *_ in EXPRESSIONS])
def test_an_expression_is_linear(place, text, is_anchored):
    for _ in range(3):
        seconds, attack = slowest(text, is_anchored=is_anchored)
        if seconds < LONGEST_SECONDS:
            return
    pytest.fail(f"{text!r} needs {seconds:.2f} s: {attack}")


def test_a_quadratic_expression_is_noticed():
    assert slowest("(?:1|22)+b", is_anchored=False)[0] > LONGEST_SECONDS
