"""What the rules of the embedded API and the policies of a cluster say to the same write."""

import functools

from pykueue.api.cel import mutations, types
from pykueue.api.cel.environment import Environment, json_value
from pykueue.api.cel.errors import EvaluationError
from pykueue.api.configuration import loading
from pykueue.api.rules import table as rules
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import AdmissionRequest
from pykueue.install import policies as install_policies

EVERY_KIND = sorted(job_kinds.JOB_KINDS)


class Cluster:
    """Empty, or with a LocalQueue `default`."""

    def __init__(self, *, has_default_queue=False):
        self.has_default_queue = has_default_queue

    def get(self, resource, namespace, name):
        return {} if resource.kind == "LocalQueue" and name == "default" and self.has_default_queue else None

    def list(self, resource, namespace=""):
        return []


@functools.cache
def settings(*gates, manages_all=False):
    """With every job kind; a gate with a minus is off."""
    configuration = {
        "integrations": {"frameworks": EVERY_KIND},
        "featureGates": {gate.removeprefix("-"): not gate.startswith("-") for gate in gates},
        "manageJobsWithoutQueueName": manages_all,
    }
    return loading.complete(configuration).value.settings()


_BY_SETTINGS = {}


def _tables_and_policies(of):
    """Tables and policies of settings, which are known by identity because they hold dicts."""
    if id(of) not in _BY_SETTINGS:
        by_kind = {(resource.group, resource.kind): table for resource, table in install_policies.tables(of).items()}
        _BY_SETTINGS[id(of)] = of, by_kind, install_policies.objects(of)
    return _BY_SETTINGS[id(of)]


def tables(of):
    return _tables_and_policies(of)[1]


def policies(of=None):
    return _tables_and_policies(of or settings())[2]


def group_and_kind(obj):
    group, slash, _ = obj["apiVersion"].rpartition("/")
    return (group if slash else ""), obj["kind"]


ENVIRONMENT = Environment(
    dict.fromkeys(("object", "oldObject", "variables", "request"), types.DYN),
    functions=mutations.add_mutations,
    has_mutations=True,
)
LIMIT = 1_000_000
"""A real API server allows as much for one expression."""


@functools.cache
def _compiled(text):
    return ENVIRONMENT.compile(text)


def evaluate(text, values):
    return json_value(_compiled(text).evaluate(values, LIMIT)[0])


def refusals(obj, old=None, of=None):
    """The messages of the policies that refuse the write; an error refuses too."""
    table = tables(of or settings())[group_and_kind(obj)]
    values = {"object": obj, "oldObject": old, "variables": {}}
    if not all(evaluate(text, values) for _, text in table.conditions):
        return []
    for variable in table.variables:
        values["variables"][variable.name] = evaluate(variable.cel, values)
    return [rule.message for rule in table.validations if not _holds(rule, values)]


def _holds(rule, values):
    try:
        return evaluate(rule.schema()["expression"], values)
    except EvaluationError:
        return False


def complaints(obj, old=None, of=None, *, has_default_queue=False):
    """Of the rules of the embedded API."""
    request = AdmissionRequest(
        operation="CREATE" if old is None else "UPDATE",
        object=obj,
        old=old,
        lookup=Cluster(has_default_queue=has_default_queue),
        settings=of or settings(),
    )
    return [
        f"{error.field}: {error.detail}" for error in rules.rules_of(*group_and_kind(obj)).validator(request).denied
    ]


def disagreement(obj, old=None, of=None):
    """None, or what the two say."""
    by_rules, by_policies = complaints(obj, old, of), refusals(obj, old, of)
    return None if bool(by_rules) == bool(by_policies) else {"rules": by_rules, "policies": by_policies}
