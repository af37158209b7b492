"""A lint: processes of our own import no module of the directory in which a user starts them."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
_MODULE = re.compile(r'"-m", "pykueue')


def test_child_processes_have_a_safe_path():
    """Without -P, `python -m` imports `random.py` of the current directory, whoever wrote it."""
    lines = [line for file in SOURCE.rglob("*.py") for line in file.read_text().splitlines() if _MODULE.search(line)]
    assert lines
    assert [line for line in lines if '"-P", "-m", "pykueue' not in line] == []
