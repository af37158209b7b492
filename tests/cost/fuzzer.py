"""Random requests of a hostile user, as bytes. Seed and number give the same request again.

Most are nearly right: a valid object with a few changed fields, on a path that exists. The rest
are texts that once were expensive, watches, upgrades, broken HTTP and connections that stop in
the middle.
"""

import base64
import copy
import json
import random
import urllib.parse
import zlib
from dataclasses import dataclass

import yaml
from tests.cost import object_templates
from tests.cost.entries import FIELD_SELECTORS, HEADERS, JSON_TEXTS, LABEL_SELECTORS, PROTOBUF_BODIES, YAML_TEXTS

REVIEWS = {
    "authorization.k8s.io": (
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "localsubjectaccessreviews",
    ),
    "authentication.k8s.io": ("selfsubjectreviews", "tokenreviews"),
}
SUBRESOURCES = (
    *("status", "status", "status", "scale", "scale", "log", "binding", "exec", "attach", "portforward", "proxy"),
    *("proxy/a/../b", "eviction", "token", "finalize", "resize", "ephemeralcontainers", "approval", "pendingworkloads"),
    *("x", "é"),
)
PATHS = (
    *("/", "/api", "/apis", "/api/v1", "/apis/kueue.x-k8s.io/v1beta2", "/openapi/v2", "/openapi/v3", "/version"),
    *("/openapi/v3/apis/batch/v1", "/healthz", "/readyz?verbose", "/livez/ping", "/metrics", "/debug/pprof", "/logs"),
    *("/apis/metrics.k8s.io/v1beta1/nodes", "/apis/metrics.k8s.io/v1beta1/pods", "/.well-known/openid-configuration"),
    *("/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/n1/pendingworkloads", "/api/v1/watch/pods"),
    *("/api/v1/nodes/n1/proxy/logs", "/api/v1/namespaces/default/services/n1/proxy/", "//api//v1", "/api/v1/..%2f"),
)
ON_COLLECTIONS = ("GET", "GET", "POST", "POST", "POST", "POST", "DELETE")
ON_OBJECTS = ("GET", "GET", "PUT", "PUT", "PATCH", "PATCH", "PATCH", "PATCH", "DELETE")
OTHER_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "get", "PROPFIND", "CONNECT")
JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PATCHES = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
OTHER_MEDIA = (
    "",
    "text/plain",
    "application/cbor",
    "application/apply-patch+cbor",
    "multipart/form-data; boundary=a",
    "application/json; charset=x",
)
COSTLY_TEXTS = {
    JSON: JSON_TEXTS,
    YAML: YAML_TEXTS,
    PROTOBUF: PROTOBUF_BODIES,
    "application/apply-patch+yaml": YAML_TEXTS,
}
ACCEPTED = (
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
    PROTOBUF,
    f"{PROTOBUF},application/json",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/yaml",
    "application/cbor",
    "*/*;q=0.1",
    "é",
)
PARAMETERS = (
    *("limit", "resourceVersion", "resourceVersionMatch", "continue", "timeoutSeconds", "fieldManager", "dryRun"),
    *("force", "pretty", "tailLines", "limitBytes", "sinceSeconds", "sinceTime", "follow", "previous", "timestamps"),
    *("gracePeriodSeconds", "propagationPolicy", "orphanDependents", "fieldValidation", "sendInitialEvents"),
    *("allowWatchBookmarks", "container", "command", "stdin", "tty", "ports", "includeObject", "watch", "x"),
)
VALUES = (
    *("", "0", "1", "-1", "x", "true", "All", "Exact", "NotOlderThan", "Strict", "9" * 5000, "é\x00", "Foreground"),
    *(str(2**63 - 1), str(2**31 - 1)),
)
SCALARS = (None, True, 0, -1, 2**31, 2**63, 10**4000, 1.5, 1e300, "", "a", "1Gi", "-1", "\x1b]0;x\x07", "x" * 3000)
FIELDS = (
    *("metadata", "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "managedFields"),
    *("generateName", "uid", "spec", "status", "template", "containers", "image", "env", "resources", "requests"),
    *("limits", "cpu", "replicas", "parallelism", "completions", "suspend", "queueName", "podSets", "count", "rules"),
    *("verbs", "roleRef", "subjects", "data", "type", "ports", "port", "selector", "matchLabels", "matchExpressions"),
    *("key", "operator", "values", "kind", "apiVersion", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("generation", "creationTimestamp", "priority", "overhead", "tolerations", "schedulingGates", "volumes"),
    *("active", "conditions", "fieldsV1", "manager", "operation", "time", "$patch", "$retainKeys", "restartPolicy"),
    *("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/priority-class", "admission"),
)
POINTERS = ("", "/metadata", "/spec", "/metadata/labels", "/status", "/spec/a", "/metadata/x/0", "/-", "/spec/~0~1/é")
NAMES = 5
LARGEST_BODY = 3_200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzedRequest:
    number: int
    sort: str
    """What it is: a verb, or what is unusual about it."""
    data: bytes
    parts: tuple | None = None
    """Method, target, headers and body, if they can be sent by HTTP/2 as well."""
    more: bytes = b""
    """Sent after the head of the response: the messages of an upgraded connection."""
    is_answered: bool = True
    """Whether the server must answer: it may close a connection that does not speak HTTP."""
    is_complete: bool = True
    """Whether the client waits for the response. Otherwise it goes away, or stays silent."""
    most_bytes: int = 1 << 24
    """The client disconnects after this many bytes of the response."""
    longest_seconds: float = 60.0
    """The client disconnects after this time. An answered request then is a failure."""


class Fuzzer:
    """The request of one number. `user` is the token and the namespace; "" may use the cluster."""

    def __init__(self, seed, number, user):
        self.random = random.Random(f"{seed}-{number}")
        self.number = number
        self.token, self.namespace = user

    def request(self):
        choose = self.random.random()
        if choose < 0.03:
            return self.watch()
        if choose < 0.05:
            return self.upgrade()
        if choose < 0.09:
            return self.broken()
        if choose < 0.10:
            return self.half_open()
        return self.usual()

    def usual(self):
        resource, path, is_named, subresource = self.path()
        methods = ON_OBJECTS if is_named else ON_COLLECTIONS
        if subresource in ("binding", "eviction", "token") or "reviews" in path:
            methods = ("POST",)
        method = self.random.choice(methods if self.random.random() < 0.95 else OTHER_METHODS)
        if method == "DELETE" and not is_named and self.random.random() < 0.9:
            method = "POST"  # objects stay for a while
        if "rolebindings" in path and method not in ("POST", "GET"):
            method = "GET"  # the users keep their rights
        media, body = self.body(method, resource) if method in ("POST", "PUT", "PATCH") else ("", b"")
        if method == "DELETE" and self.random.random() < 0.2:
            media, body = JSON, self.encode({"kind": "DeleteOptions", "apiVersion": "v1", **self.delete_options()})
        headers = {"Content-Type": media} if media else {}
        return self.framed(method, method, self.target(path), headers, body)

    # Paths and queries

    def path(self):
        """The resource, the path, whether it names an object, and the subresource."""
        choose = self.random.random()
        if choose < 0.02:
            return "", self.random.choice(PATHS), False, ""
        if choose < 0.06:
            group = self.random.choice(list(REVIEWS))
            return "", f"/apis/{group}/v1/{self.random.choice(REVIEWS[group])}", False, ""
        namespaced = self.namespace and self.random.random() < 0.95
        resource = self.random.choice(
            list(object_templates.NAMESPACED if namespaced else object_templates.CLUSTER_SCOPED)
        )
        group, plural = resource.split()
        namespace = self.random.choice((*[self.namespace] * 40, "default", "é%00", "")) if namespaced else ""
        is_named = self.random.random() < 0.5
        name = f"/{self.name(plural)}" if is_named else ""
        subresource = self.random.choice(SUBRESOURCES) if name and self.random.random() < 0.3 else ""
        within = f"/namespaces/{namespace}" if namespace else ""
        path = f"/{group}{within}/{plural}{name}{'/' if subresource else ''}{urllib.parse.quote(subresource)}"
        return resource, path, is_named, subresource

    def name(self, plural):
        usual = object_templates.CLUSTER_NAMES.get(plural) or f"n{self.random.randint(0, NAMES)}"
        odd = ("..", "%2e%2e", "a%2fb", "%00", "x" * 300, "%F0%9F%98%80", "N", "-")
        return usual if self.random.random() < 0.97 else self.random.choice(odd)

    def target(self, path):
        if self.random.random() < 0.5:
            return path
        parameters = {name: self.random.choice(VALUES) for name in self.random.sample(PARAMETERS, 2)}
        parameters.pop("watch", None)
        if parameters.get("follow") == "true":
            parameters["follow"] = "false"  # a stream would not end
        if self.random.random() < 0.3:
            build = self.random.choice(list(LABEL_SELECTORS.values()))
            parameters["labelSelector"] = build(self.random.choice((1, 20, 2000)))
        if self.random.random() < 0.2:
            build = self.random.choice(list(FIELD_SELECTORS.values()))
            parameters["fieldSelector"] = build(self.random.choice((1, 20, 2000)))
        if self.random.random() < 0.1:
            parameters["continue"] = base64.b64encode(self.encode(self.value())).decode()[:3000]
        return f"{path}{'&' if '?' in path else '?'}{urllib.parse.urlencode(parameters)}"

    # Bodies

    def body(self, method, resource):
        choose = self.random.random()
        if choose < 0.002:
            return JSON, self.large_body()
        if choose < 0.12:
            media = self.random.choice(list(COSTLY_TEXTS))
            text = self.random.choice(list(COSTLY_TEXTS[media].values()))(self.random.choice((1, 50, 300, 3000)))
            return media, text if isinstance(text, bytes) else text.encode()
        if choose < 0.15:
            return self.random.choice(OTHER_MEDIA), self.encode(self.object(resource))
        if method == "PATCH":
            return self.patch(resource)
        if choose < 0.25:
            return YAML, yaml.dump(self.object(resource), Dumper=yaml.CSafeDumper, allow_unicode=True).encode()
        return JSON, self.damaged(self.encode(self.object(resource)))

    def patch(self, resource):
        media = self.random.choice(PATCHES)
        if "json-patch" in media:
            return media, self.damaged(self.encode(self.operations()))
        obj = self.object(resource)
        if obj and "merge" in media and self.random.random() < 0.7:
            part = self.random.choice(list(obj))
            obj = {part: obj[part]}
        return media, self.damaged(self.encode(obj))

    def object(self, resource):
        """A valid object of the resource with a few changes, or anything."""
        template = object_templates.NAMESPACED.get(resource) or object_templates.CLUSTER_SCOPED.get(resource)
        if template is None or self.random.random() < 0.1:
            obj = {"metadata": {"name": self.name("")}, "spec": self.value(), "status": self.value()}
            return obj | {self.random.choice(FIELDS): self.value() for _ in range(2)}
        obj = copy.deepcopy(template)
        metadata = obj.setdefault("metadata", {})
        metadata["name"] = self.name(resource.split()[1])
        if self.random.random() < 0.3:
            metadata["labels"] = {"kueue.x-k8s.io/queue-name": "n1"}
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            self.change(obj)
        return obj

    def change(self, obj):
        """Set, add or remove one field, anywhere in the object."""
        part = obj
        while True:
            inner = [item for item in (part.values() if isinstance(part, dict) else part) if item]
            inner = [item for item in inner if isinstance(item, dict | list)]
            if not inner or self.random.random() < 0.25:
                break
            part = self.random.choice(inner)
        if isinstance(part, list):
            part[self.random.randrange(len(part))] = self.value(3)
            return
        choose = self.random.random()
        if choose < 0.2 and part:
            del part[self.random.choice(list(part))]
        elif choose < 0.7 and part:
            part[self.random.choice(list(part))] = self.value(3)
        else:
            part[self.random.choice(FIELDS)] = self.value(3)

    def value(self, depth=0):
        choose = self.random.random()
        if depth > 6 or choose < 0.4:
            return self.random.choice(SCALARS)
        if choose < 0.6:
            return [self.value(depth + 1) for _ in range(self.random.randint(0, 3))]
        return {self.random.choice(FIELDS): self.value(depth + 1) for _ in range(self.random.randint(0, 5))}

    def operations(self):
        operations = ("add", "add", "copy", "move", "remove", "test", "replace", "replace", "x")
        return [
            {
                "op": self.random.choice(operations),
                "path": self.random.choice(POINTERS) + self.random.choice(("", "/x", f"/y{index}")),
                "from": self.random.choice(POINTERS),
                "value": self.value(4),
            }
            for index in range(self.random.choice((0, 1, 1, 2, 30)))
        ]

    def delete_options(self):
        names = ("gracePeriodSeconds", "preconditions", "propagationPolicy", "orphanDependents", "dryRun")
        return {name: self.value(4) for name in self.random.sample(names, 2)}

    def encode(self, value):
        return json.dumps(value).encode()

    def damaged(self, body):
        """Sometimes with a changed, removed or repeated piece."""
        if not body or self.random.random() < 0.95:
            return body
        start = self.random.randrange(len(body))
        piece = self.random.choice((b"", b"\xff\xfe", b"\x00", b'"', b"{", b"]", b"\\u0000", body[start : start + 40]))
        return body[:start] + piece + body[start + self.random.choice((0, 1, 5)) :]

    def large_body(self):
        size = self.random.choice((100_000, 900_000, 2_900_000, LARGEST_BODY))
        shapes = ('{"metadata":{"name":"n1"},"data":{"a":"%s"}}', '{"metadata":{"name":"n1"},"data":{"%s":"a"}}')
        return (self.random.choice(shapes) % ("x" * size)).encode()

    # Connections

    def head(self, method, target, headers):
        lines = [f"{method} {target} HTTP/1.1", "Host: x", f"Authorization: Bearer {self.token}"]
        return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()

    def framed(self, sort, method, target, headers, body, **options):
        if self.random.random() < 0.15:
            headers["Accept"] = self.random.choice(ACCEPTED)
        elif self.random.random() < 0.05:
            headers["Accept"] = self.random.choice(list(HEADERS.values()))(self.random.choice((1, 500)))
        if body and self.random.random() < 0.02:
            headers["Content-Encoding"] = self.random.choice(("gzip", "deflate", "br", "x"))
            body = zlib.compress(body) if self.random.random() < 0.5 else body
        parts = None
        if sort != "upgrade":
            parts = (method, target, {"Authorization": f"Bearer {self.token}", **headers}, body)
        if body and self.random.random() < 0.1:
            headers["Transfer-Encoding"] = "chunked"
            body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in _parts(body)) + b"0\r\n\r\n"
        elif body or method in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = len(body)
        data = self.head(method, target, headers) + body
        return FuzzedRequest(number=self.number, sort=sort, data=data, parts=parts, **options)

    def watch(self):
        _, path, _, _ = self.path()
        version = self.random.choice(("", "0", "1", "99999999", "x"))
        query = {"watch": "1", "timeoutSeconds": self.random.choice(("1", "1", "0", "x")), "resourceVersion": version}
        if self.random.random() < 0.3:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        query |= {"allowWatchBookmarks": "true"} if self.random.random() < 0.5 else {}
        most = self.random.choice((0, 200, 5000))
        target = f"{path.split('?', maxsplit=1)[0]}?{urllib.parse.urlencode(query)}"
        return self.framed("watch", "GET", target, {}, b"", most_bytes=most, longest_seconds=2.0, is_answered=False)

    def upgrade(self):
        name, subresource = self.name("pods"), self.random.choice(("exec", "attach", "portforward", "log", "proxy/a"))
        query = "command=sh&stdin=true&stdout=true&stderr=true&container=c&ports=80&follow=true&tty=x"
        target = f"/api/v1/namespaces/{self.namespace or 'of-bob'}/pods/{name}/{subresource}?{query}"
        protocol = self.random.choice(("websocket", "websocket", "SPDY/3.1", "h2c", "x"))
        headers = {
            "Connection": "Upgrade",
            "Upgrade": protocol,
            "Sec-WebSocket-Version": self.random.choice(("13", "13", "13", "8", "x")),
            "Sec-WebSocket-Key": base64.b64encode(self.random.randbytes(16)).decode(),
            "Sec-WebSocket-Protocol": self.random.choice(("v5.channel.k8s.io", "v4.channel.k8s.io", "x", "")),
            "X-Stream-Protocol-Version": "v4.channel.k8s.io",
        }
        more = self.random.randbytes(self.random.choice((2, 30, 500)))
        if self.random.random() < 0.5:
            more = b"\x82\xfe\x00\x80mask" + more
        return self.framed(
            "upgrade", self.random.choice(("GET", "POST")), target, headers, b"", more=more, most_bytes=0
        )

    def broken(self):
        """Bytes that are not quite HTTP."""
        usual = self.usual().data
        head, separator, body = usual.partition(b"\r\n\r\n")
        start = self.random.randrange(len(head))
        noise = self.random.randbytes(self.random.choice((1, 3, 200)))
        shapes = (
            noise,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noise,
            head[:start] + noise + head[start:] + separator + body,
            head.replace(b"HTTP/1.1", self.random.choice((b"HTTP/1.0", b"HTTP/9.9", b"", b"HTTP/1.1 x")))
            + separator
            + body,
            head.replace(b"\r\n", b"\n") + b"\n\n" + body,
            head + b"\r\nTransfer-Encoding: chunked\r\nContent-Length: 5" + separator + b"zz\r\n" + body,
            head + b"\r\nContent-Length: -1" + separator + body,
            head + b"\r\nContent-Length: 5\r\nContent-Length: 6" + separator + body,
            head + b"\r\nTransfer-Encoding: gzip, x" + separator + body,
            head + b"\r\nX: " + b"y" * 70_000 + separator + body,
            head + b"\r\nX: y" * 5000 + separator + body,
            head + b"\r\nExpect: 100-continue" + separator + body,
            head + b"\r\nAuthorization: Bearer x" + separator + body,
            head + b"\r\nImpersonate-User: system:admin\r\nImpersonate-Group: system:masters" + separator + body,
            b"GET /" + b"a" * 70_000 + b" HTTP/1.1" + separator,
            b"GET http://x/api/v1/pods HTTP/1.1\r\nHost: y" + separator,
            b"GET /version HTTP/1.1\r\n\r\n" * 50,
        )
        index = self.random.randrange(len(shapes))
        return FuzzedRequest(
            number=self.number, sort="broken", data=shapes[index], is_answered=False, longest_seconds=2.0
        )

    def half_open(self):
        """A request whose end never comes."""
        data = self.usual().data
        end = self.random.randrange(len(data))
        return FuzzedRequest(
            number=self.number, sort="half-open", data=data[:end], is_answered=False, is_complete=False
        )


def _parts(body):
    size = max(1, len(body) // 3)
    return [body[start : start + size] for start in range(0, len(body), size)]
