"""Applies mutating policies to an object: evaluates their CEL and merges as the API server."""

import copy

import jsonpatch
from tests.install import policy_verdicts


def applied(policies, obj, old=None, *, parameters=()):
    """`parameters` are the kinds of which an object `default` is there."""
    obj = copy.deepcopy(obj)
    for policy in policies:
        spec = policy["spec"]
        kind = spec.get("paramKind", {}).get("kind")
        if (
            policy["kind"] != "MutatingAdmissionPolicy"
            or not _is_about(spec, obj, old)
            or kind not in (None, *parameters)
        ):
            continue
        for mutation in spec["mutations"]:
            request = {"resource": {"version": obj["apiVersion"].rpartition("/")[2]}}
            obj = _mutated(mutation, {"object": obj, "oldObject": old, "request": request})
    return obj


def _is_about(spec, obj, old):
    (rule,) = spec["matchConstraints"]["resourceRules"]
    plural = f"{obj['kind'].lower()}s"
    operation = "CREATE" if old is None else "UPDATE"
    values = {"object": obj, "oldObject": old}
    return (
        rule["resources"] == [plural]
        and operation in rule["operations"]
        and all(
            policy_verdicts.evaluate(condition["expression"], values) for condition in spec.get("matchConditions", ())
        )
    )


def _mutated(mutation, values):
    patches = mutation["patchType"] == "JSONPatch"
    text = mutation["jsonPatch" if patches else "applyConfiguration"]["expression"]
    value = policy_verdicts.evaluate(text, values)
    return jsonpatch.apply_patch(values["object"], value) if patches else _merged(values["object"], value)


def _merged(old, new):
    """An empty map that was not there makes no difference."""
    if isinstance(new, dict):
        before = old if isinstance(old, dict) else {}
        changes = {key: _merged(before.get(key), value) for key, value in new.items()}
        return before | {key: value for key, value in changes.items() if value != {} or key in before}
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *(item for item in new if item not in old)]
    return new
