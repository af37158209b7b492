"""The tools that write the type files, on small documents."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from pykueue.api.builtin.notation import Types

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
framework_types = importlib.import_module("framework_types")
kubernetes_types = importlib.import_module("kubernetes_types")

PACKAGE = "io.k8s.api.demo.v1"
GO = """\
package v1

type Widget struct {
\tmetav1.TypeMeta `json:",inline"`
\tSpec WidgetSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
}

type WidgetSpec struct {
\tSize *int32 `json:"size,omitempty" protobuf:"varint,3,opt,name=size"`
\tName string `json:"name" protobuf:"bytes,1,opt,name=name"`
\tColor string `json:"color,omitempty" protobuf:"bytes,4,opt,name=color"`
\tParts `json:",inline" protobuf:"bytes,5,opt,name=parts"`
}

type Parts struct {
\tTags []string `json:"tags,omitempty" protobuf:"bytes,1,rep,name=tags"`
}
"""
WIDGET = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "spec": {"allOf": [{"$ref": f"#/components/schemas/{PACKAGE}.WidgetSpec"}], "default": {}},
    },
    "x-kubernetes-group-version-kind": [{"group": "demo", "version": "v1", "kind": "Widget"}],
}
TAGS = {
    "type": "array",
    "items": {"type": "string"},
    "x-kubernetes-list-type": "set",
    "x-kubernetes-patch-strategy": "merge",
}
SPEC = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "size": {"type": "integer", "format": "int32", "description": "not taken over"},
        "name": {"type": "string"},
        "color": {"type": "string"},
        "tags": TAGS,
    },
}
PRESENT = """\
Widget demo/v1 -- A widget.

WidgetSpec
  color string(red|green) -- Its color.
  name string!
"""


@pytest.fixture
def openapi(tmp_path):
    schemas = {f"{PACKAGE}.Widget": WIDGET, f"{PACKAGE}.WidgetSpec": SPEC}
    (tmp_path / "demo.json").write_text(json.dumps({"components": {"schemas": schemas}}))
    return kubernetes_types.OpenApi(tmp_path)


@pytest.fixture
def go(tmp_path):
    folder = tmp_path / "api/demo/v1"
    folder.mkdir(parents=True)
    (folder / "types.go").write_text(GO)
    return kubernetes_types.GoStructs(tmp_path)


def test_types_have_order_and_numbers_of_go_and_descriptions_and_limits_of_ours(openapi, go):
    assert (
        kubernetes_types.Writer(openapi, go, Types([PRESENT])).text()
        == """\
Widget demo/v1 -- A widget.
  spec WidgetSpec @2+

WidgetSpec
  size int32 @3
  name string! @1+
  color string(red|green) @4? -- Its color.
  = Parts @5

Parts
  tags [string] @1 set merge
"""
    )


def test_without_go_fields_are_sorted(openapi):
    text = kubernetes_types.Writer(openapi, kubernetes_types.GoStructs(None), Types([PRESENT])).text()
    assert text.endswith(
        "  color string(red|green) -- Its color.\n  name string!\n  size int32\n  tags [string] set merge\n"
    )


def test_a_field_that_go_does_not_have_is_an_error(openapi, go):
    openapi.schemas[f"{PACKAGE}.WidgetSpec"]["properties"]["weight"] = {"type": "string"}
    with pytest.raises(SystemExit, match="WidgetSpec: Go has no weight"):
        kubernetes_types.Writer(openapi, go, Types([PRESENT])).text()


def test_the_merge_table_has_every_list_and_object(openapi):
    assert kubernetes_types.MergeTable(openapi).marks(f"{PACKAGE}.Widget") == {
        "": "object granular",
        ".spec": "object granular",
        ".spec.tags": "list set merge",
    }


def test_a_framework_gets_new_fields_and_list_types():
    present = Types(
        ["Train demo.dev/v1\n  metadata ObjectMeta\n  spec TrainSpec\n\nTrainSpec\n  cars any -- Cars.\n  old bool\n"]
    )
    writer = framework_types.Writer(present, Types(["Toleration\n  key string\n  value string\n"]))
    cars = {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"}
    toleration = {"properties": {"key": {"type": "string"}, "value": {"type": "string"}}}
    spec = {"properties": {"cars": cars, "toleration": toleration, "other": {"properties": {"x": {}}}}}
    writer.add("Train", {"properties": {"kind": {"type": "string"}, "spec": spec}})
    assert writer.text().endswith(
        "TrainSpec\n  cars [any] atomic -- Cars.\n  old bool\n  other any\n  toleration Toleration\n"
    )
