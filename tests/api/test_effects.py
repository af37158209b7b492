"""The tables of feature gates and Configuration fields name the modules that read them."""

import ast
import functools
import re
from pathlib import Path

import pytest
from tools import compatibility, kueue_features, settings_tests

import pykueue
from pykueue.api import feature_gates, structural
from pykueue.api.configuration import effects, loading
from pykueue.api.configuration.types import Configuration

SOURCE = Path(pykueue.__file__).parent
WITHOUT_READERS = {"api/feature_gates.py"}
REPLAYS = ("conformance/", "simulate/")


@functools.cache
def tree(path):
    return ast.parse(path.read_text())


def module(name):
    path = SOURCE / f"{name.replace('.', '/')}.py"
    assert path.exists(), f"there is no module {name}"
    return path


@functools.cache
def arguments(path):
    """The texts that the module passes to a function: `is_enabled(gates, "X")`."""
    calls = (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
    return {argument.value for call in calls for argument in call.args if isinstance(argument, ast.Constant)}


@functools.cache
def words(path):
    """The texts and the attributes of the module: `section.get("timeout")` or `options.timeout`."""
    nodes = list(ast.walk(tree(path)))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return texts | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def readers(gate):
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name not in WITHOUT_READERS and not name.startswith(REPLAYS) and gate in arguments(path):
            yield name


@pytest.mark.parametrize("name", feature_gates.GATES)
def test_a_gate_is_read_by_the_module_that_the_table_names_or_by_nobody(name):
    gate = feature_gates.GATES[name]
    if gate.read_by:
        assert name in arguments(module(gate.read_by))
    else:
        assert list(readers(name)) == []
        assert gate.limits


def leaves(schema, path):
    if path in effects.FIELDS:
        yield path
    elif schema.get("type") == "array" and "properties" in schema["items"]:
        yield from leaves(schema["items"], f"{path}[]")
    elif "properties" in schema:
        for name, inner in schema["properties"].items():
            yield from leaves(inner, f"{path}.{name}".lstrip("."))
    else:
        yield path


def test_the_table_has_every_field_of_the_configuration_and_no_other():
    assert set(leaves(structural.schema_of(Configuration), "")) == set(effects.FIELDS)


def spellings(name):
    snake = re.sub(r"(?<!^)([A-Z])", lambda match: f"_{match[1].lower()}", name)
    return {name, snake, f"{snake}_ns", f"{snake}_options"}


@pytest.mark.parametrize("path", effects.FIELDS)
def test_a_field_is_read_by_the_modules_that_the_table_names_or_has_limits(path):
    field = effects.FIELDS[path]
    parts = path.replace("[]", "").split(".")
    if not field.read_by:
        assert field.limits
        return
    assert spellings(parts[-1]) & words(module(field.read_by[-1]))
    everything = set().union(*(words(module(name)) for name in field.read_by))
    assert all(spellings(part) & everything for part in parts)


PLAIN = "{name: x.io/a, deviceClassNames: [a]}"
SELECTOR = "deviceSelector: {cel: {expression: 'true'}}"
COUNTED = f"{{name: x.io/b, deviceClassNames: [b], sources: [{{counter: {{name: c, driver: d, {SELECTOR}}}}}]}}"


def limits(text):
    loaded = loading.load(f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{text}")
    return [limit.path for limit in effects.limits_of(loaded.document)]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("featureGates: {TASBalancedPlacement: true}", []),
        ("featureGates: {AssignQueueLabelsForPods: false}", []),
        ("featureGates: {MultiKueue: true, MultiKueueClusterProfile: true}", []),
        ("featureGates: {TASHandleOverlappingFlavors: false}", []),
        ("multiKueue: {origin: here}", []),
        ("tls: {curvePreferences: [29]}", []),
        ("tls: {curvePreferences: [29, 23]}", ["tls.curvePreferences"]),
        (f"resources: {{deviceClassMappings: [{PLAIN}, {COUNTED}]}}", []),
        ("clientConnection: {qps: 20}\nwaitForPodsReady: {timeout: 5m}", []),
    ],
)
def test_what_is_set_without_effect_is_named(text, paths):
    assert limits(text) == paths


def test_fields_that_only_the_controller_reads_are_named():
    document = {"webhook": {"port": 1}, "namespace": "x", "leaderElection": {"leaderElect": None}}
    assert effects.fields_of_controller(document) == ["webhook.port"]


def test_the_page_of_compatibility_is_current():
    page = compatibility.PAGE.read_text()
    assert page == compatibility.rendered(page), "run python -m tools.compatibility"
    assert "| TASBalancedPlacement |" in page
    assert "| `tls.minVersion` |" in page


def test_every_feature_has_a_test_or_is_said_to_be_missing():
    rows = kueue_features.FEATURES
    assert len(rows) == len({row.name for row in rows}) == 60
    assert [row.name for row in rows if bool(row.test) == row.state.startswith("not there")] == []


def named_tests():
    yield from (row.test for row in kueue_features.FEATURES if row.test)
    yield from settings_tests.GATE_TESTS.values()
    yield from settings_tests.FIELD_TESTS.values()


@pytest.mark.parametrize("test", sorted(set(named_tests())))
def test_a_test_that_the_page_names_exists(test):
    path, _, name = test.partition("::")
    functions = ast.walk(tree(Path(__file__).parents[1] / path))
    assert name in {node.name for node in functions if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_gate_and_every_field_has_a_test():
    assert settings_tests.GATE_TESTS.keys() == feature_gates.GATES.keys()
    assert all(map(compatibility.field_test, effects.FIELDS))
    assert "no effect" not in "".join(compatibility.TABLES.values())
