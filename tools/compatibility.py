"""Writes the tables of docs/compatibility.md: features, gates and fields of the Configuration.

Run `python -m tools.compatibility` after a change of `tools/kueue_features.py`,
`tools/settings_tests.py`, `api/feature_gates.py` or `api/configuration/effects.py`. Text outside
the marked parts is written by hand and stays.
"""

from collections.abc import Iterable
from pathlib import Path

from tools import kueue_features, settings_tests

from pykueue.api import feature_gates
from pykueue.api.configuration import effects

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _module(name: str) -> str:
    return f"`{name.replace('.', '/')}`"


def _without_reader(gate: feature_gates.Gate) -> str:
    if gate.is_locked:
        return "always"
    return "both values alike" if gate.is_alike else "no effect"


def _gate_rows() -> Iterable[tuple[str, ...]]:
    for name, gate in feature_gates.GATES.items():
        effect = _module(gate.read_by) if gate.read_by else _without_reader(gate)
        default = f"{'on' if gate.is_on else 'off'}{', locked' if gate.is_locked else ''}"
        text = f"{effect}: {gate.limits}" if gate.limits else effect
        yield name, gate.stage.value, default, text, f"`tests/{settings_tests.GATE_TESTS[name]}`"


def _field_rows() -> Iterable[tuple[str, ...]]:
    for path, field in effects.FIELDS.items():
        effect = _module(field.read_by[-1]) if field.read_by else "no effect"
        place = " (`pykueue controller`)" if field.is_of_controller else ""
        text = f"{effect}{place}: {field.limits}" if field.limits else f"{effect}{place}"
        yield f"`{path}`", text, f"`tests/{field_test(path)}`"


def field_test(path: str) -> str:
    prefixes = [prefix for prefix in settings_tests.FIELD_TESTS if path.startswith(prefix)]
    return settings_tests.FIELD_TESTS[max(prefixes, key=len)]


def _feature_rows() -> Iterable[tuple[str, ...]]:
    for feature in kueue_features.FEATURES:
        test = f"`tests/{feature.test}`" if feature.test else "none"
        yield feature.name, feature.stage, feature.state, test


TABLES = {
    "features": _table(("feature", "stage in Kueue", "state", "test"), _feature_rows()),
    "feature gates": _table(("gate", "stage", "default", "read by", "test"), _gate_rows()),
    "configuration": _table(("field", "read by", "test"), _field_rows()),
}


def rendered(page: str) -> str:
    """The page with its marked parts replaced."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        page = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
