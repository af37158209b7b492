"""Our CRDs have the fields, limits, defaults, list types, messages and columns of upstream's.

Set KUEUE_CRDS to the folder `config/components/crd/bases` of a checkout of Kueue v0.19.2.
"""

import os
from pathlib import Path

import pytest
import yaml

from pykueue.api import crds, registry

FOLDER = Path(os.environ.get("KUEUE_CRDS", "/nonexistent"))
OURS = {
    definition["metadata"]["name"]: definition
    for definition in crds.definitions(registry.scheme(), conversion_service="system/webhook")
}
TEXT = {"description", "x-kubernetes-validations"}
NESTED = {"properties", "items", "additionalProperties"}
INTENDED = {
    ".template": "pod templates are typed only as deep as we compute with them",
}

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="KUEUE_CRDS names no checkout of upstream's CRDs")


def differences(ours, theirs, path=""):
    if any(path.endswith(ending) for ending in INTENDED):
        return
    for keyword in sorted((ours.keys() | theirs.keys()) - TEXT - NESTED):
        mine, other = ours.get(keyword), theirs.get(keyword)
        if keyword == "required":
            mine, other = sorted(mine or []), sorted(other or [])
        if mine != other:
            yield path, keyword, mine, other
    messages = [[rule["message"] for rule in schema.get("x-kubernetes-validations", [])] for schema in (ours, theirs)]
    if messages[0] != messages[1]:
        yield path, "rules", *messages
    mine, other = ours.get("properties", {}), theirs.get("properties", {})
    for name in sorted(mine.keys() | other.keys()):
        if name in mine and name in other:
            yield from differences(mine[name], other[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}", "missing" if name in other else "extra", mine.get(name), other.get(name)
    for keyword in ("items", "additionalProperties"):
        if keyword in ours and keyword in theirs:
            yield from differences(ours[keyword], theirs[keyword], f"{path}[]")
        elif keyword in ours or keyword in theirs:
            yield path, keyword, keyword in ours, keyword in theirs


def without_text(version):
    columns = [
        {key: value for key, value in column.items() if key != "description"}
        for column in version.get("additionalPrinterColumns", [])
    ]
    rest = {key: value for key, value in version.items() if key not in ("schema", "additionalPrinterColumns")}
    rest["subresources"] = rest.get("subresources", {})
    return rest | {"columns": columns}


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_definition_equals_upstreams(file):
    theirs = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    ours = OURS[theirs["metadata"]["name"]]
    assert ours["spec"]["names"] == theirs["spec"]["names"]
    assert ours["spec"]["scope"] == theirs["spec"]["scope"]
    by_version = {version["name"]: version for version in ours["spec"]["versions"]}
    assert by_version.keys() == {version["name"] for version in theirs["spec"]["versions"]}
    for version in theirs["spec"]["versions"]:
        mine = by_version[version["name"]]
        assert list(differences(mine["schema"]["openAPIV3Schema"], version["schema"]["openAPIV3Schema"])) == []
        assert without_text(mine) == without_text(version)
