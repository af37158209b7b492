"""Writes src/pykueue/apiserver/http/protobuf_fields.json: which protobuf field of a Kubernetes message is which JSON field.

Go clients send builtin kinds as protobuf, whose field numbers stand in the struct tags of k8s.io/api. Run it with git
checkouts (bare ones too) of kubernetes/api, kubernetes/apimachinery and kubernetes/apiextensions-apiserver:

    python tools/protobuf_fields.py API APIMACHINERY APIEXTENSIONS > src/pykueue/apiserver/http/protobuf_fields.json
"""

import json
import re
import subprocess
import sys

FILES = {
    "admissionregistration/v1": (0, "admissionregistration/v1/types.go"),
    "apps/v1": (0, "apps/v1/types.go"),
    "authentication/v1": (0, "authentication/v1/types.go"),
    "authorization/v1": (0, "authorization/v1/types.go"),
    "autoscaling/v1": (0, "autoscaling/v1/types.go"),
    "batch/v1": (0, "batch/v1/types.go"),
    "coordination/v1": (0, "coordination/v1/types.go"),
    "core/v1": (0, "core/v1/types.go"),
    "events/v1": (0, "events/v1/types.go"),
    "node/v1": (0, "node/v1/types.go"),
    "policy/v1": (0, "policy/v1/types.go"),
    "rbac/v1": (0, "rbac/v1/types.go"),
    "scheduling/v1": (0, "scheduling/v1/types.go"),
    "meta/v1": (1, "pkg/apis/meta/v1/types.go"),
    "apiextensions/v1": (2, "pkg/apis/apiextensions/v1/types.go"),
    "apiextensions/v1 ": (2, "pkg/apis/apiextensions/v1/types_jsonschema.go"),
}
GROUPS = {
    "admissionregistration/v1": "admissionregistration.k8s.io/v1",
    "authentication/v1": "authentication.k8s.io/v1",
    "authorization/v1": "authorization.k8s.io/v1",
    "coordination/v1": "coordination.k8s.io/v1",
    "core/v1": "v1",
    "events/v1": "events.k8s.io/v1",
    "node/v1": "node.k8s.io/v1",
    "rbac/v1": "rbac.authorization.k8s.io/v1",
    "scheduling/v1": "scheduling.k8s.io/v1",
    "meta/v1": "meta.k8s.io/v1",
    "apiextensions/v1": "apiextensions.k8s.io/v1",
}
SCALARS = {"string": "s", "bool": "b", "[]byte": "y", "float64": "d"} | dict.fromkeys(
    ["int", "int32", "int64", "uint32", "uint64", "byte", "uint8"], "i"
)
SPECIAL = {
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intorstring",
    "metav1.Time": "time",
    "metav1.MicroTime": "time",
    "metav1.Duration": "duration",
    "metav1.FieldsV1": "raw",
    "runtime.RawExtension": "raw",
    "types.UID": "s",
    "types.NodeName": "s",
    "JSON": "raw",
    "JSONSchemaPropsOrBool": "schemaorbool",
    "JSONSchemaPropsOrArray": "schemaorarray",
    "JSONSchemaPropsOrStringArray": "schemaorstrings",
}
IMPORTS = {"metav1": "meta/v1"} | dict.fromkeys(["v1", "corev1", "apiv1"], "core/v1")
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^type (\w+) =?\s*([\w.\[\]*]+)$", re.MULTILINE)
FIELD = re.compile(r'^\t(?:(\w+)\s+)?([\w.\[\]*]+)\s+`.*?json:"([^"]*)".*?protobuf:"\w+,(\d+),(\w+)', re.MULTILINE)


class Types:
    def __init__(self, repositories: list[str]) -> None:
        self.structs: dict[tuple[str, str], str] = {}
        self.named: dict[tuple[str, str], str] = {}
        for key, (repository, path) in FILES.items():
            package = key.strip()
            command = ["git", "-C", repositories[repository], "show", f"HEAD:{path}"]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            self.structs |= {(package, name): body for name, body in STRUCT.findall(text)}
            self.structs |= {
                (package, name): "" for name in re.findall(r"^type (\w+) struct ?\{\}", text, re.MULTILINE)
            }
            self.named |= {(package, name): target for name, target in NAMED.findall(text)}

    def encoded(self, package: str, go_type: str) -> str:
        """`*` a pointer, `[]` a list, `{}` a map, then a scalar, a special type or the name of a message."""
        if go_type.startswith("*"):
            return "*" + self.encoded(package, go_type[1:])
        if go_type in SCALARS:
            return SCALARS[go_type]
        if go_type.startswith("[]"):
            return "[]" + self.encoded(package, go_type[2:])
        if go_type.startswith("map["):
            return "{}" + self.encoded(package, go_type.partition("]")[2])
        if go_type in SPECIAL:
            return SPECIAL[go_type]
        prefix, dot, name = go_type.rpartition(".")
        package = IMPORTS[prefix] if dot else package
        if f"metav1.{name}" in SPECIAL and package == "meta/v1":
            return SPECIAL[f"metav1.{name}"]
        if (package, name) in self.structs:
            return f"{package}.{name}"
        target = self.named[package, name]
        if target.startswith("[]"):  # a named list is a message with its items in field 1
            return "items:" + self.encoded(package, target[2:])
        return self.encoded(package, target)

    def message(self, package: str, name: str) -> dict[str, list[str]]:
        fields = {}
        for _, go_type, tag, number, label in FIELD.findall(self.structs[package, name]):
            json_name, _, options = tag.partition(",")
            required = "" if "omitempty" in options or "omitzero" in options else "!"
            prefix = re.sub(r"[*\[\]]", "", go_type).rpartition(".")[0]
            if prefix in ("", "resource", "intstr", "runtime", "types", *IMPORTS):  # others are alpha
                kind = self.encoded(package, go_type)
                fields[number] = [json_name, required + (re.sub("^items:", "[]", kind) if label == "rep" else kind)]
        return fields


def main() -> None:
    types = Types(sys.argv[1:])
    messages, roots = {}, {}
    waiting = []
    for (package, name), body in sorted(types.structs.items()):
        is_root = "TypeMeta `json:" in body and not name.endswith("List")
        if is_root:
            roots[f"{GROUPS.get(package, package)}/{name}"] = f"{package}.{name}"
            waiting.append(f"{package}.{name}")
    while waiting:
        full = waiting.pop()
        if full in messages:
            continue
        messages[full] = types.message(*full.rsplit(".", 1))
        for _, kind in messages[full].values():
            below = re.sub(r"^(!|\*|\[\]|\{\}|items:)*", "", kind)
            if "/" in below:
                waiting.append(below)
    json.dump({"roots": roots, "messages": messages}, sys.stdout, separators=(",", ":"), sort_keys=True)
    sys.stdout.write("\n")


main()
