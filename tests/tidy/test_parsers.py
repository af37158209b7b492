"""A lint: JSON and YAML that users write are decoded by `json_text` and `yaml_reader` only.

Other decoders of the same text have no limit of depth, of aliases or of length.
"""

import ast

import pytest
from tests.tidy.test_sizes import SOURCE, name_of

FOLDERS = ("api", "apiserver", "cluster", "controllers", "translate", "webhooks", "app")
DECODERS = {"json.loads", "json.load", "yaml.safe_load", "yaml.load", "yaml.safe_load_all", "yaml.load_all"}
OWN_TEXTS = {
    "api/json_text.py": "the decoder itself",
    "apiserver/store/lock.py": "a file of the server",
    "apiserver/security/kubeconfig.py": "a file of the server",
    "apiserver/security/certificates.py": "a file of the server",
    "apiserver/patches/field_sets.py": "path elements that the server has made",
}
MODULES = sorted(path for folder in FOLDERS for path in (SOURCE / folder).rglob("*.py"))


def decoders(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in DECODERS:
            yield node


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_texts_of_users_have_one_decoder(path):
    found = [f"{path.name}:{node.lineno}" for node in decoders(ast.parse(path.read_text()))]
    assert found == [] or str(path.relative_to(SOURCE)) in OWN_TEXTS, "use json_text or yaml_reader"


@pytest.mark.parametrize("name", OWN_TEXTS)
def test_every_exception_is_needed(name):
    assert list(decoders(ast.parse((SOURCE / name).read_text())))
