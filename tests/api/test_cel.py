"""Each of our rules runs as Python, with the result of the interpreter for its text."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api import generate

from pykueue.api import registry, schema
from pykueue.api.cel import rules
from pykueue.api.cel.errors import EvaluationError
from pykueue.api.cel.limits import Budget

RECORDED = [
    json.loads(line) for line in (Path(__file__).parent / "recorded" / "validation.jsonl").read_text().splitlines()
]
KINDS = [kind for kind in registry.scheme() if kind.group == "kueue.x-k8s.io"]


def places(part, value, old):
    """Each (rule text, self, oldSelf) where a rule applies; list items are paired by position."""
    for rule in part.get("x-kubernetes-validations", ()):
        yield rule["rule"], value, old
    if isinstance(value, dict):
        for name, inner in part.get("properties", {}).items():
            if name in value:
                yield from places(inner, value[name], old.get(name) if isinstance(old, dict) else None)
    elif isinstance(value, list):
        pairs = old if isinstance(old, list) else []
        for index, item in enumerate(value):
            yield from places(part.get("items", {}), item, pairs[index] if index < len(pairs) else None)


def verdict(holds, text, value, old):
    try:
        return holds(text, value, old, Budget())
    except EvaluationError as error:
        return str(error)


def check(kind, value, old):
    """Rules meet objects only after defaulting."""
    for obj in (value, old):
        schema.apply_defaults(kind.schema, obj)
    for text, own, before in places(kind.schema, value, old):
        if rules.uses_old_self(text) and before is None:
            continue
        assert text in rules._checks
        ours = verdict(rules.holds, text, own, before)
        assert ours == verdict(rules.compiled_holds, text, own, before), text


def has_rules(kind):
    return "x-kubernetes-validations" in json.dumps(kind.schema)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if has_rules(kind)], ids=lambda kind: f"{kind.version}-{kind.kind}"
)
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_python_and_cel_agree(kind, data):
    drawn = generate.objects(kind)
    check(kind, data.draw(drawn), data.draw(drawn))


RESERVED = {
    "type": "QuotaReserved",
    "status": "True",
    "reason": "R",
    "message": "",
    "lastTransitionTime": "2026-01-15T12:00:00Z",
}


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_they_agree_on_workloads_that_hold_quota(version, data):
    (kind,) = [kind for kind in KINDS if (kind.kind, kind.version) == ("Workload", version)]
    new, old = data.draw(generate.objects(kind)), data.draw(generate.objects(kind))
    for workload in (new, old):
        workload.setdefault("spec", {"podSets": []})
        conditions = [RESERVED, RESERVED | {"type": "Admitted"}]
        workload.setdefault("status", {})["conditions"] = data.draw(st.lists(st.sampled_from(conditions), max_size=2))
    check(kind, new, old)


SOUND = [case for case in RECORDED if "<nil>" not in [field for field, *_ in case.get("causes", ())]]


@pytest.mark.parametrize("case", SOUND[::3], ids=range(0, len(SOUND), 3))
def test_they_agree_on_recorded_writes(case):
    (kind,) = [kind for kind in KINDS if (kind.kind, kind.version) == (case["kind"], "v1beta2")]
    check(kind, copy.deepcopy({"spec": case["spec"]}), copy.deepcopy({"spec": case.get("old")}))
