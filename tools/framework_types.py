"""Brings `frameworks.types` of `api/builtin` up to date with the CRDs of the job frameworks.

    make framework-types CRDS=FOLDER

CRDS holds CustomResourceDefinitions as YAML, or OpenAPI v3 documents of a cluster as JSON. The
tool adds missing fields and takes list types from the CRDs. What else the present file has stays:
kinds, types and their names, descriptions, limits, and fields that the CRDs do not have, because
other versions of a framework have them. CRDs do not name the types of their parts. A new field
has the type of Kubernetes with the same fields, or `any`.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from kubernetes_types import SCALAR_WORDS, TYPES, Schema, merge_marks

from pykueue.api.builtin.notation import Field, Types
from pykueue.api.meta import QUANTITY

FRAMEWORKS = TYPES.with_name("frameworks.types")
HEADER = """\
# The kinds of the job frameworks, one type a paragraph. The notation is explained in notation.py.
# tools/framework_types.py adds fields and list types from the frameworks' CRDs.
"""
_HEAD_FIELDS = ("apiVersion", "kind", "metadata")


def read_kinds(folder: Path) -> dict[tuple[str, str], Schema]:
    """The schemas of kinds by (apiVersion, kind)."""
    schemas: dict[tuple[str, str], Schema] = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(folder.rglob("*.y*ml")):
        for document in yaml.load_all(path.read_text(), loader):
            if document and document.get("kind") == "CustomResourceDefinition":
                spec = document["spec"]
                for version in spec["versions"]:
                    served = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                    schemas[served] = version["schema"]["openAPIV3Schema"]
    for path in sorted(folder.rglob("*.json")):
        for schema in json.loads(path.read_text()).get("components", {}).get("schemas", {}).values():
            for served in schema.get("x-kubernetes-group-version-kind", ()):
                schemas[f"{served['group']}/{served['version']}", served["kind"]] = schema
    return schemas


class Writer:
    """Collects the properties of each type from all CRDs that use it, then writes the types."""

    def __init__(self, present: Types, kubernetes: Types) -> None:
        self._present = present
        self._by_fields = {
            frozenset(field.name for field in kubernetes.fields(name)): name for name in kubernetes.names()
        }
        self._properties: dict[str, dict[str, Schema]] = {name: {} for name in present.names()}

    def add(self, name: str, schema: Schema) -> None:
        """Use the schema for the type of this name, and its parts for the types of the fields."""
        properties = self._properties[name]
        for field, part in schema.get("properties", {}).items():
            if field not in _HEAD_FIELDS or not self._present.head(name).api_version:
                properties.setdefault(field, part)
        for field in self._present.lines(name):
            inner, part = field.type, properties.get(field.name, {})
            while inner[0] in "[{":
                part = part.get("items" if inner[0] == "[" else "additionalProperties") or {}
                inner = inner[1:-1]
            if inner in self._properties:
                self.add(inner, part)

    def text(self) -> str:
        return "\n\n".join("\n".join(self._paragraph(name)) for name in self._properties) + "\n"

    def _paragraph(self, name: str) -> Iterator[str]:
        head = self._present.head(name)
        words = (name, head.api_version, head.is_atomic and "atomic", head.description and f"-- {head.description}")
        yield " ".join(word for word in words if word)
        fields = {field.name: field for field in self._present.lines(name)}
        new = {field: self._new_field(field, part) for field, part in self._properties[name].items()}
        for field in sorted((new | fields).values(), key=lambda field: (field.type != "ObjectMeta", field.name)):
            yield _line(field, self._properties[name].get(field.name))

    def _new_field(self, name: str, schema: Schema) -> Field:
        return Field(name, self._type(schema), is_required=False, number=0, zero="", marks=(), description="")

    def _type(self, schema: Any) -> str:
        if schema.get("x-kubernetes-int-or-string"):
            return "quantity" if schema.get("pattern") == QUANTITY else "intstr"
        if schema.get("type") == "array":
            return f"[{self._type(schema['items'])}]"
        if isinstance(schema.get("additionalProperties"), dict):
            return f"{{{self._type(schema['additionalProperties'])}}}"
        if schema.get("properties"):
            return self._by_fields.get(frozenset(schema["properties"]), "any")
        return SCALAR_WORDS.get((schema.get("type", ""), schema.get("format", "")), "any")


def _line(field: Field, schema: Schema | None) -> str:
    """The line of a field, with the list type of the CRD if the CRD has the field."""
    text, marks = field.type, list(field.marks)
    if schema and schema.get("type") == "array":
        text = "[any]" if text == "any" else text
        marks = [*merge_marks(schema), *(mark for mark in marks if mark.startswith(">="))]
    words = [f"  {field.name} {text}{'!' * field.is_required}", *marks]
    return " ".join(words) + (f" -- {field.description}" if field.description else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crds", type=Path, metavar="CRDS")
    schemas = read_kinds(parser.parse_args().crds)
    present, kubernetes = Types([FRAMEWORKS.read_text()]), Types([TYPES.read_text()])
    writer = Writer(present, kubernetes)
    for served, name in present.kinds.items():
        if served in schemas:
            writer.add(name, schemas[served])
    FRAMEWORKS.write_text(HEADER + "\n" + writer.text())


if __name__ == "__main__":
    main()
