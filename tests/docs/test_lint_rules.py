from pathlib import Path

import pytest

from pykueue.lint import checks

DOCUMENT = (Path(__file__).parents[2] / "docs" / "lint.md").read_text()


@pytest.mark.parametrize("rule", checks.RULES, ids=lambda rule: rule.id)
def test_every_rule_has_an_entry(rule):
    entry = DOCUMENT.partition(f"### {rule.id}\n")[2].partition("\n### ")[0]
    text = " ".join(entry.split())
    assert rule.summary in text
    assert rule.remedy in text
