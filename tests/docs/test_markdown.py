"""Documents have short lines, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FOLDERS = ("docs", "examples", "tools", "tests")
DOCUMENTS = sorted((*PROJECT.glob("*.md"), *(path for folder in FOLDERS for path in (PROJECT / folder).rglob("*.md"))))
COLUMNS = 99
LINK = re.compile(r"\]\(([^)#]+)\)")


def name_of(path):
    return path.relative_to(PROJECT).as_posix()


def prose(path):
    """Lines that are neither code nor a table."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if not line.startswith(("    ", "|"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_lines_of_prose_are_short(path):
    assert [line for line in prose(path) if len(line) > COLUMNS] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_to_files_lead_somewhere(path):
    targets = [target for target in LINK.findall(path.read_text()) if "://" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []
