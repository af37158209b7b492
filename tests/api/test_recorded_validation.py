"""Writes that a kube-apiserver 1.36.4 with our CRDs answered: what it refused, in its words, or what it stored."""

import copy
import json
from pathlib import Path

import pytest

from pykueue.api import registry, schema
from pykueue.api.schema_validation import validate

SCHEME = registry.scheme()
CASES = [
    json.loads(line) for line in (Path(__file__).parent / "recorded" / "validation.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case['kind']}" for number, case in enumerate(CASES)])
def test_the_same_answer_as_a_real_api_server(case):
    known = SCHEME.for_kind("kueue.x-k8s.io/v1beta2", case["kind"]).schema
    written = {"spec": copy.deepcopy(case["spec"])}
    old = {"spec": case["old"]} if "old" in case else None
    schema.apply_defaults(known, schema.prune(known, written))
    causes = {(error.field, error.reason, error.cause()["message"]) for error in validate(known, written, old)}
    if "causes" in case:
        assert causes == {tuple(cause) for cause in case["causes"]}
    else:
        assert (causes, written.get("spec")) == (set(), case["stored"])
