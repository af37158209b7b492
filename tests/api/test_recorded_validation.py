"""Writes that a kube-apiserver 1.36.4 with our CRDs answered: refusals and stored objects."""

import copy
import json
from pathlib import Path

import pytest

from pykueue.api import registry, schema
from pykueue.api.schema_validation import validate

SCHEME = registry.scheme()
RECORDED = Path(__file__).parent / "recorded"
CUSTOM = json.loads((RECORDED / "custom_schema.json").read_text())


def cases(name):
    return [json.loads(line) for line in (RECORDED / name).read_text().splitlines()]


def answer(structural_schema, case):
    written = {"spec": copy.deepcopy(case["spec"])}
    old = {"spec": case["old"]} if "old" in case else None
    schema.apply_defaults(structural_schema, schema.prune(structural_schema, written))
    causes = {
        (error.field, error.reason, error.cause()["message"]) for error in validate(structural_schema, written, old)
    }
    return causes, written.get("spec") if not causes else None


def recorded(case):
    return {tuple(cause) for cause in case.get("causes", ())}, case.get("stored")


@pytest.mark.parametrize("case", cases("validation.jsonl"), ids=lambda case: case["kind"])
def test_the_same_answer_as_a_real_api_server(case):
    structural_schema = SCHEME.for_kind("kueue.x-k8s.io/v1beta2", case["kind"]).schema
    assert answer(structural_schema, case) == recorded(case)


@pytest.mark.parametrize("case", cases("custom.jsonl"), ids=lambda case: "-".join(case["spec"]) or "nothing")
def test_the_same_answer_for_a_users_own_schema(case):
    assert answer(CUSTOM, case) == recorded(case)
