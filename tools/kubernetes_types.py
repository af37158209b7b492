"""Writes `kubernetes.types` from OpenAPI documents, and a table of merge marks for the tests.

    make types OPENAPI=FOLDER GO=FOLDER

OPENAPI holds the OpenAPI v3 documents of a cluster, one JSON file for each group version
(`kubectl get --raw /openapi/v3/apis/apps/v1 > apps-v1.json`). GO is `staging/src/k8s.io` of a
Kubernetes checkout of the same version: its structs have the order of the fields, the protobuf
numbers, and which empty fields Go writes. Without GO, fields are sorted and have no numbers.

The present type file says which kinds are written: to add a kind, add a line such as
`Ingress networking.k8s.io/v1 -- Routes requests to services.` and run the tool. Descriptions and
limits (`!`, `>=N`, choices) are ours and stay as the present file has them. OpenAPI's `required`
is not used: an API server does not enforce it for its own kinds.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pykueue.api.builtin.notation import SCALARS, Field, Types

ROOT = Path(__file__).parents[1]
TYPES = ROOT / "src/pykueue/api/builtin/kubernetes.types"
MERGE_MARKS = ROOT / "tests/apiserver/patches/merge_marks.json.gz"
HEADER = """\
# The kinds of Kubernetes {version}, one type a paragraph. The notation is explained in notation.py.
# Written by tools/kubernetes_types.py; only descriptions and limits are edited by hand.
"""
_SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intstr",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "json",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "json",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "json",
}
SCALAR_WORDS = {
    ("string", ""): "string",
    ("string", "byte"): "bytes",
    ("string", "date-time"): "time",
    ("boolean", ""): "bool",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("number", "double"): "float",
}
Schema = dict[str, Any]


class OpenApi:
    """The schemas of all documents of a folder."""

    def __init__(self, folder: Path) -> None:
        self.schemas: dict[str, Schema] = {}
        self.version = ""
        for path in sorted(folder.rglob("*.json")):
            document = json.loads(path.read_text())
            self.version = self.version or document.get("info", {}).get("version", "")
            self.schemas |= document.get("components", {}).get("schemas", {})
        self.kinds = {
            (_api_version(served), served["kind"]): name
            for name, schema in self.schemas.items()
            for served in schema.get("x-kubernetes-group-version-kind", ())
        }

    def resolve(self, schema: Schema) -> tuple[str, Schema]:
        """The name of the schema that this one refers to, and what both say together."""
        references = [part["$ref"] for part in (schema, *schema.get("allOf", ())) if "$ref" in part]
        if not references:
            return "", schema
        name = references[0].rpartition("/")[2]
        return name, self.schemas[name] | {key: value for key, value in schema.items() if key not in ("allOf", "$ref")}


def _api_version(served: dict[str, str]) -> str:
    return f"{served['group']}/{served['version']}" if served["group"] else served["version"]


class GoField(NamedTuple):
    """A field of a Go struct. `embedded` is the name of the struct if the field is embedded."""

    json_name: str
    number: int
    zero: str
    embedded: str


class GoStructs:
    """The structs of `types*.go` files, by the names that OpenAPI has for them."""

    STRUCT = re.compile(r"^type (\w+) struct ?\{(\}$|\n.*?^\})", re.MULTILINE | re.DOTALL)
    FIELD = re.compile(
        r'^\t(?:(\w+)\s+)?([\w.\[\]*]+)\s+`.*?json:"([^"]*)"(?:.*?protobuf:"\w+,(\d+),\w+)?', re.MULTILINE
    )
    PLAIN = re.compile(r"string|bool|u?int\d*|float64|byte|types\.\w+")

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._packages: dict[str, dict[str, str]] = {}
        self._named: dict[str, dict[str, str]] = {}

    def fields(self, full_name: str) -> list[GoField]:
        """Empty if there is no such struct."""
        package, _, name = full_name.rpartition(".")
        body = self._structs(package).get(name, "")
        return [
            self._field(package, go_type, tag, int(number or 0)) for _, go_type, tag, number in self.FIELD.findall(body)
        ]

    def _structs(self, package: str) -> dict[str, str]:
        if package not in self._packages:
            folder = self._folder and self._folder / package.removeprefix("io.k8s.").replace(".", "/")
            files = sorted(folder.glob("types*.go")) if folder else []
            text = "\n".join(path.read_text() for path in files if "_test" not in path.name)
            self._packages[package] = dict(self.STRUCT.findall(text))
            self._named[package] = dict(re.findall(r"^type (\w+) ([\w.\[\]*]+)$", text, re.MULTILINE))
        return self._packages[package]

    def _field(self, package: str, go_type: str, tag: str, number: int) -> GoField:
        json_name, _, options = tag.partition(",")
        if "inline" in options or not json_name:
            return GoField("", number, "", go_type)
        return GoField(json_name, number, self._zero(package, go_type, options), "")

    def _zero(self, package: str, go_type: str, options: str) -> str:
        """`+` if Go writes the field even if it is empty, `?` if it leaves out a zero."""
        if "omitempty" not in options and "omitzero" not in options:
            return "+"
        plain = self._named[package].get(go_type, go_type)
        if plain == "[]byte":
            return "?"
        if plain.startswith(("*", "[", "map[")):
            return ""
        is_struct = not self.PLAIN.fullmatch(plain) and plain not in ("metav1.Time", "metav1.MicroTime")
        return "+" if is_struct and "omitzero" not in options and self._is_struct(package, plain) else "?"

    def _is_struct(self, package: str, name: str) -> bool:
        return name in self._structs(package) or name.startswith(("metav1.", "v1.", "corev1."))


class Writer:
    """Writes the paragraphs of the kinds in the present file and of all types that they use."""

    def __init__(self, api: OpenApi, go: GoStructs, present: Types) -> None:
        self._api = api
        self._go = go
        self._present = present
        missing = [" ".join(served) for served in present.kinds if served not in api.kinds]
        if missing:
            raise SystemExit(f"the OpenAPI documents have no {', '.join(missing)}")
        self._kinds = {api.kinds[served]: served[0] for served in present.kinds}
        self._names = self._short_names(set(self._reached()))
        self._paragraphs: dict[str, str] = {}
        self._outer: dict[str, str] = {}
        """Names of embedded types to names of the types that embed them."""

    def text(self) -> str:
        for name in self._reached():
            self._write(name)
        return "\n\n".join(self._paragraphs.values()) + "\n"

    def _reached(self) -> Iterator[str]:
        """Full names of all types, each kind before what it uses."""
        done: set[str] = set()
        for kind in self._kinds:
            waiting = [kind]
            while waiting:
                name = waiting.pop(0)
                if name in done:
                    continue
                done.add(name)
                yield name
                waiting = [*self._used(self._api.schemas[name]), *waiting]

    def _used(self, schema: Schema) -> Iterator[str]:
        name, schema = self._api.resolve(schema)
        if name and not self._word(name):
            yield name
            return
        inner = [*schema.get("properties", {}).values()]
        inner += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
        for part in inner:
            yield from self._used(part)

    def _word(self, full_name: str) -> str:
        """The word of the notation for a type that has one."""
        short = full_name.rpartition(".")[2]
        return _SPECIAL.get(full_name, short if short in SCALARS else "")

    def _short_names(self, full_names: set[str]) -> dict[str, str]:
        """The last part of the name; if several types have it, with the package before it."""
        counts: dict[str, int] = {}
        for full in full_names:
            short = full.rpartition(".")[2]
            counts[short] = counts.get(short, 0) + 1
        return {
            full: short if counts[short] == 1 else f"{full.split('.')[-3]}.{short}"
            for full in full_names
            for short in [full.rpartition(".")[2]]
        }

    def _write(self, full: str) -> None:
        schema = self._api.schemas[full]
        properties = schema.get("properties", {})
        api_version = self._kinds.get(full, "")
        if "x-kubernetes-group-version-kind" in schema:
            properties = {name: part for name, part in properties.items() if name not in ("apiVersion", "kind")}
        name = self._names[full]
        head = f"{name} {api_version}".rstrip()
        head += _head_mark(schema)
        remaining = dict(properties)
        self._add(full, name, head, remaining)
        if remaining:
            raise SystemExit(f"{full}: Go has no {', '.join(remaining)}; are both folders of one version?")

    def _add(self, full: str, name: str, head: str, properties: dict[str, Schema]) -> None:
        """Write a type; takes the fields that it writes out of `properties`."""
        if name in self._paragraphs:  # several types embed one struct
            for json_name in self._all_go_fields(full):
                properties.pop(json_name, None)
            return
        self._paragraphs[name] = ""  # comes before the types that it embeds
        lines: list[str] = []
        go_fields = self._go.fields(full) or [GoField(json_name, 0, "", "") for json_name in sorted(properties)]
        for field in go_fields:
            if field.embedded:
                lines += self._embed(full, field, properties)
            elif field.json_name in properties:
                lines.append(self._line(name, field, properties.pop(field.json_name)))
        about = self._present.head(name).description if name in self._present.names() else ""
        self._paragraphs[name] = "\n".join([head + (f" -- {about}" if about else ""), *lines])

    def _all_go_fields(self, full: str) -> Iterator[str]:
        for field in self._go.fields(full):
            if field.embedded:
                yield from self._all_go_fields(_sibling(full, field.embedded))
            else:
                yield field.json_name

    def _embed(self, full: str, field: GoField, properties: dict[str, Schema]) -> Iterator[str]:
        if field.embedded.endswith("TypeMeta"):
            return
        inner = _sibling(full, field.embedded)
        name = self._names.get(inner, inner.rpartition(".")[2])
        schema = self._api.schemas.get(inner)
        self._outer.setdefault(name, self._names.get(full, full.rpartition(".")[2]))
        self._add(inner, name, name + (_head_mark(schema) if schema else ""), properties)
        yield f"  = {name} @{field.number}"

    def _line(self, type_name: str, go: GoField, schema: Schema) -> str:
        present = self._present_field(type_name, go.json_name)
        text, marks = self._type(schema), list(merge_marks(schema))
        if present:
            choice = re.search(r"string\([^)]*\)", present.type)
            text = text.replace("string", choice[0]) if choice else text
            marks += [mark for mark in present.marks if mark.startswith(">=")]
        if go.number:
            marks.insert(0, f"@{go.number}{go.zero}")
        if self._is_defaulted_key(type_name, go.json_name, schema):
            marks.append(f"default={schema['default']}")
        required = "!" if present and present.is_required else ""
        about = f" -- {present.description}" if present and present.description else ""
        return " ".join([f"  {go.json_name} {text}{required}", *marks]) + about

    def _present_field(self, type_name: str, field: str) -> Field | None:
        """The field of the type, or of the type that embeds it if the present file is flat."""
        while type_name and type_name not in self._present.names():
            type_name = self._outer.get(type_name, "")
        lines = self._present.fields(type_name) if type_name else ()
        return next((line for line in lines if line.name == field), None)

    def _is_defaulted_key(self, type_name: str, field: str, schema: Schema) -> bool:
        is_key = any(
            field in part.get("x-kubernetes-list-map-keys", ())
            and self._names.get(self._api.resolve(part["items"])[0]) == type_name
            for owner in self._names
            for part in self._api.schemas[owner].get("properties", {}).values()
        )
        return is_key and bool(schema.get("default"))

    def _type(self, schema: Schema) -> str:
        name, schema = self._api.resolve(schema)
        if name:
            return self._word(name) or self._names[name]
        if schema.get("type") == "array":
            return f"[{self._type(schema['items'])}]"
        if isinstance(schema.get("additionalProperties"), dict):
            return f"{{{self._type(schema['additionalProperties'])}}}"
        return SCALAR_WORDS.get((schema.get("type", ""), schema.get("format", "")), "json")


def _sibling(full: str, go_type: str) -> str:
    """The full name of an embedded struct, which is in the package of the outer struct."""
    return f"{full.rpartition('.')[0]}.{go_type.lstrip('*')}"


def _head_mark(schema: Schema) -> str:
    is_atomic = schema.get("x-kubernetes-map-type") == "atomic" or _is_untyped(schema)
    return " atomic" if is_atomic else ""


def merge_marks(schema: Schema) -> Iterator[str]:
    list_type = schema.get("x-kubernetes-list-type") if schema.get("type") == "array" else None
    if list_type == "map":
        yield f"key={','.join(schema['x-kubernetes-list-map-keys'])}"
    elif list_type:
        yield list_type
    if map_type := schema.get("x-kubernetes-map-type"):
        yield map_type
    strategies = schema.get("x-kubernetes-patch-strategy", "").split(",")
    if "merge" in strategies:
        key = schema.get("x-kubernetes-patch-merge-key")
        yield f"merge={key}" if key else "merge"
    if "replace" in strategies:
        yield "replace"
    if "retainKeys" in strategies:
        yield "retain"


def _is_untyped(schema: Schema) -> bool:
    """Whether it is an object without declared fields, which server-side apply replaces."""
    if schema.get("oneOf") or schema.get("type") not in (None, "object"):
        return False
    return not schema.get("properties") and not schema.get("additionalProperties")


class MergeTable:
    """How each list and object of a kind merges, by path, read from OpenAPI alone.

    A mark is `list TYPE KEYS` or `object TYPE`, then the patch strategy and its key, if any.
    A type within itself is followed once.
    """

    def __init__(self, api: OpenApi) -> None:
        self._api = api

    def marks(self, full: str) -> dict[str, str]:
        return dict(self._walk({"$ref": f"/{full}"}, "", ()))

    def _walk(self, schema: Schema, path: str, within: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        name, merged = self._api.resolve(schema)
        if within.count(name) > (1 if name else len(within)):
            return
        mark = self._mark(merged)
        if not mark:
            return
        yield path, mark
        for field, part in merged.get("properties", {}).items():
            yield from self._walk(part, f"{path}.{field}", (*within, name))
        if isinstance(merged.get("additionalProperties"), dict):
            yield from self._walk(merged["additionalProperties"], f"{path}{{}}", (*within, name))
        if "items" in merged:
            yield from self._walk(merged["items"], f"{path}[]", (*within, name))

    def _mark(self, schema: Schema) -> str:
        patch = [schema.get(f"x-kubernetes-patch-{word}", "") for word in ("strategy", "merge-key")]
        if schema.get("type") == "array":
            words = ["list", schema.get("x-kubernetes-list-type", "atomic")]
            words += schema.get("x-kubernetes-list-map-keys", ())
        elif _is_untyped(schema):
            words = ["object", "atomic"]
        elif schema.get("type") == "object":
            words = ["object", schema.get("x-kubernetes-map-type", "granular")]
        else:
            return ""
        return " ".join(word for word in [*words, *patch] if word)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("openapi", type=Path, metavar="OPENAPI")
    parser.add_argument("go", type=Path, metavar="GO", nargs="?")
    arguments = parser.parse_args()
    api, present = OpenApi(arguments.openapi), Types([TYPES.read_text()])
    version = re.search(r"\d+\.\d+", api.version) or re.search(r"\d+\.\d+", TYPES.read_text())
    text = Writer(api, GoStructs(arguments.go), present).text()
    TYPES.write_text(HEADER.format(version=version[0] if version else "") + "\n" + text)
    tables = {
        f"{api_version} {kind}": MergeTable(api).marks(api.kinds[api_version, kind])
        for api_version, kind in present.kinds
    }
    MERGE_MARKS.write_bytes(gzip.compress(json.dumps(tables, sort_keys=True, indent=0).encode(), mtime=0))


if __name__ == "__main__":
    main()
