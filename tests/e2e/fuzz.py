"""Random requests: some valid, some guided by schemas, some broken. A seed repeats them."""

import copy
import json
import random
import string
from dataclasses import dataclass, field

from pykueue.api import registry

METHODS = ("GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW")
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
CONTENT_TYPES = (*PATCH_TYPES, "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "", "x/y")
ACCEPTS = (
    "",
    "application/json",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "text/html",
    ";;=,",
)
ODD = (
    None,
    True,
    0,
    -1,
    2**63,
    1.5,
    "",
    "x" * 300,
    "\u0000",
    "ünï",
    "a/b",
    "..",
    [],
    {},
    [[]],
    {"": {}},
    "1e400",
    "9" * 40,
)
QUERIES = (
    "limit=1",
    "limit=-1",
    "limit=x",
    "continue=nonsense",
    "resourceVersion=1",
    "resourceVersion=99999999999",
    "resourceVersionMatch=Exact",
    "labelSelector=a%3Db",
    "labelSelector=%21%21",
    "fieldSelector=metadata.name%3Dfuzz",
    "fieldSelector=spec.nothing%3D1",
    "watch=1&timeoutSeconds=1",
    "dryRun=All",
    "dryRun=Some",
    "fieldManager=fuzz",
    "fieldValidation=Strict",
    "force=true",
    "pretty=true",
    "propagationPolicy=Orphan",
    "gracePeriodSeconds=0",
    "%zz=%",
    "timeoutSeconds=-5",
)
PLAIN_PATHS = ("/", "/api", "/apis", "/version", "/readyz?verbose", "/openapi/v3", "/openapi/v2", "/metrics", "/logs")
SUBRESOURCES = ("", "", "", "", "/status", "/scale", "/log", "/exec", "/nothing", "/status/deep")
NAMES = ("fuzz", "fuzz-2", "Not_A_Name", "x" * 260, "%00", "%2e%2e", "a%2Fb", "")


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Fuzzer:
    def __init__(self, seed, namespace):
        self._random = random.Random(seed)
        self._namespace = namespace
        self._kinds = [kind for kind in registry.scheme() if kind.plural != "namespaces"]

    def request(self):
        pick = self._random.choice
        if self._random.random() < 0.05:
            return Request(method=pick(METHODS), path=pick(PLAIN_PATHS), headers={"Accept": pick(ACCEPTS)})
        kind = pick(self._kinds)
        method = pick(METHODS)
        path = self._path(kind, method)
        is_sensible = self._random.random() < 0.7
        content_type = "application/json" if is_sensible else pick(CONTENT_TYPES)
        if method == "PATCH" and is_sensible:
            content_type = pick(PATCH_TYPES)
        headers = {"Content-Type": content_type, "Accept": "application/json" if is_sensible else pick(ACCEPTS)}
        body = b"" if method in ("GET", "HEAD") else self._body(kind, content_type)
        return Request(method=method, path=path, headers=headers, body=body)

    def _path(self, kind, method):
        pick = self._random.choice
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        inside = f"/namespaces/{self._namespace}" if kind.namespaced and self._random.random() < 0.95 else ""
        is_named = method != "POST" and self._random.random() < 0.8
        name = f"/{pick(NAMES)}{pick(SUBRESOURCES)}" if is_named else ""
        query = "&".join(self._random.sample(QUERIES, self._random.randrange(3)))
        if "watch=1" in query and "timeoutSeconds=-5" in query:
            query = ""  # this watch would have no timeout
        return f"{root}{inside}/{kind.plural}{name}" + (f"?{query}" if query else "")

    def _body(self, kind, content_type):
        chance = self._random.random()
        if chance < 0.1:
            return self._random.randbytes(self._random.randrange(200))
        if content_type == "application/json-patch+json":
            return json.dumps([self._operation() for _ in range(self._random.randrange(4))]).encode()
        body = json.dumps(self._object(kind)).encode()
        if chance < 0.2 and body:
            cut = self._random.randrange(len(body))
            body = body[:cut] + self._random.choice([b"", b"{", b"\xff", b'"', b"\x00"]) + body[cut + 1 :]
        if content_type.startswith("application/vnd"):
            body = b"k8s\x00" + body
        return body

    def _operation(self):
        pick = self._random.choice
        path = "/" + "/".join(
            pick(["spec", "metadata", "labels", "0", "-", "~1", "x"]) for _ in range(self._random.randrange(4))
        )
        return {
            "op": pick(["add", "remove", "replace", "test", "move", "copy", "no"]),
            "path": path,
            "value": self._odd(),
            "from": "/spec",
        }

    def _object(self, kind):
        obj = self._value(kind.schema, 0)
        if not isinstance(obj, dict):
            return obj
        if self._random.random() < 0.9:
            obj |= {"apiVersion": kind.api_version, "kind": kind.kind}
            obj["metadata"] = {"name": self._random.choice(NAMES[:3])} | self._metadata()
        return obj

    def _metadata(self):
        names = (
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "resourceVersion",
            "generateName",
            "uid",
            "managedFields",
        )
        return {name: self._odd() for name in names if self._random.random() < 0.08}

    def _value(self, schema, depth):
        roll = self._random.random()
        if roll < 0.03 or depth > 8:
            return self._odd()
        if "enum" in schema and roll < 0.9:
            return self._random.choice(schema["enum"])
        kind = schema.get("type")
        if kind == "object":
            properties = schema.get("properties") or {}
            likely = 0.9 if depth == 0 else 0.4
            fields = {
                name: self._value(below, depth + 1)
                for name, below in properties.items()
                if name in (schema.get("required") or ()) or self._random.random() < likely
            }
            extra = schema.get("additionalProperties")
            if isinstance(extra, dict):
                fields |= {self._text(): self._value(extra, depth + 1) for _ in range(self._random.randrange(3))}
            return fields
        if kind == "array":
            return [self._value(schema.get("items") or {}, depth + 1) for _ in range(self._random.randrange(3))]
        return self._scalar(kind)

    def _odd(self):
        return copy.deepcopy(self._random.choice(ODD))

    def _scalar(self, kind):
        if kind == "integer":
            return self._random.choice([0, 1, -1, 7, 2**31, 2**40])
        if kind == "boolean":
            return self._random.random() < 0.5
        if kind == "number":
            return self._random.random()
        return self._random.choice([self._text(), "default", "1", "100m", "2026-01-01T00:00:00Z"])

    def _text(self):
        return "".join(self._random.choices(string.ascii_lowercase + "-./:", k=self._random.randrange(12)))
