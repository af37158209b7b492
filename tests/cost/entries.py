"""Every entry of a parser of users' text, with texts of any length that once were expensive.

An entry is a function from a length to a call. `test_cost_oracle` compares the work of two lengths,
`test_crashes` makes the calls with large lengths in another process.
"""

import base64
import collections
import contextlib
import functools
import json
import zlib

import msgspec

from pykueue.api import durations, manifests, quantity, selectors, text_formats, yaml_reader
from pykueue.api.cel import strings as cel_strings
from pykueue.api.rules import syntax
from pykueue.apiserver.http import bodies, negotiation, options, protobuf, routes, spdy
from pykueue.apiserver.http2 import hpack
from pykueue.apiserver.patches import json_patch, managed_fields, merge, merge_schema, strategic, typed

JSON_TEXTS = {
    "keys, one twice": lambda n: "{" + ",".join(f'"k{i}":1' for i in range(n)) + ',"k0":2}',
    "all keys twice": lambda n: "{" + ",".join(f'"k{i // 2}":1' for i in range(n)) + "}",
    "long key above many twice": lambda n: '{"' + "k" * n + '":{' + ",".join(f'"k{i // 2}":1' for i in range(n)) + "}}",
    "long keys, nested": lambda n: ('{"' + "k" * (n // 8) + '":') * 100 + "1" + "}" * 100,
    "deep lists": lambda n: "[" * n + "]" * n,
    "deep objects": lambda n: '{"a":' * n + "1" + "}" * n,
    "open brackets": lambda n: "[" * n,
    "brackets in a text": lambda n: '{"a":"' + "[{" * n + '"}',
    "escapes": lambda n: '{"a":"' + r"\"[\\" * n + '"}',
    "digits": lambda n: "1" * n,
    "fraction": lambda n: "0." + "1" * n,
    "exponent": lambda n: "1e" + "1" * n,
    "empty lists": lambda n: "[" + "[]," * n + "[]]",
    "nested, many": lambda n: "[" + ",".join(["[" * 50 + "]" * 50] * (n // 50)) + "]",
    "blanks": lambda n: " " * n,
    "quotes": lambda n: '"' * n,
    "backslashes": lambda n: '"' + "\\" * n,
}
YAML_TEXTS = {
    "dashes": lambda n: "- " * n + "x",
    "flow lists": lambda n: " " + "[" * n,
    "flow maps": lambda n: " " + "{a: " * n,
    "questions": lambda n: "? " * n,
    "indented": lambda n: "\n".join(" " * level + "a:" for level in range(min(n, 400))),
    "list": lambda n: "- a\n" * n,
    "map": lambda n: "".join(f"k{i}: v\n" for i in range(n)),
    "map, all twice": lambda n: "".join(f"k{i // 2}: v\n" for i in range(n)),
    "anchors": lambda n: "".join(f"- &a{i} v\n" for i in range(n)),
    "aliases of a word": lambda n: "- &a x\n" + "- *a\n" * n,
    "aliases of a text": lambda n: "- &a " + "x" * n + "\n" + "- *a\n" * n,
    "aliases of a map": lambda n: "- &a {" + ", ".join(f"k{i}: v" for i in range(n // 10)) + "}\n" + "- *a\n" * n,
    "merges": lambda n: "- &a {" + ", ".join(f"k{i}: v" for i in range(n // 10)) + "}\n" + "- {<<: *a}\n" * n,
    "merge of a list": lambda n: "- &a {k: v}\n- <<: [" + "*a, " * n + "]\n",
    "aliases of aliases": lambda n: "- &a0 [x]\n" + "".join(f"- &a{i + 1} [*a{i}]\n" for i in range(n)),
    "doubling aliases": lambda n: "- &a0 [x]\n" + "".join(f"- &a{i + 1} [*a{i}, *a{i}]\n" for i in range(n)),
    "tag directives": lambda n: "".join(f"%TAG !a{i}! x\n" for i in range(n)) + "--- a",
    "tag directives after carriage returns": lambda n: "".join(f"%TAG !a{i}! x\r" for i in range(n)) + "--- a",
    "directives": lambda n: "%FOO bar\n" * n + "--- a",
    "documents": lambda n: "---\n" * n,
    "plain text": lambda n: "a" * n,
    "lines": lambda n: "a: " + "b\n  " * n,
    "quoted escapes": lambda n: '"' + "\\x41" * n + '"',
    "comments": lambda n: "#a\n" * n + "x",
    "block": lambda n: "a: |\n" + "  x\n" * n,
    "folded": lambda n: "a: >\n" + "  x\n\n" * n,
    "blanks": lambda n: "a:" + " " * n,
    "newlines": lambda n: "a:" + "\n" * n,
    "flow pairs": lambda n: "[" + "a: b," * n + "]",
    "numbers": lambda n: "- " + "1" * n,
    "tagged number": lambda n: "- !!int " + "1" * n,
    "tagged hexadecimal": lambda n: "- !!int 0x" + "f" * n,
    "underscores": lambda n: "- 1" + "_" * n,
    "binary": lambda n: "- !!binary " + "QUFB" * n,
    "tags": lambda n: "- !!str a\n" * n,
    "unknown tags": lambda n: "- !" + "a" * n + " b\n",
    "key": lambda n: "a" * n + ": b",
}


def _varint(value):
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def _field(number, content):
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _envelope(api_version, kind, message):
    identity = _field(1, api_version.encode()) + _field(2, kind.encode())
    return protobuf.MAGIC + _field(1, identity) + _field(2, message)


def _nested(number, depth, content=b""):
    for _ in range(depth):
        content = _field(number, content)
    return content


PROTOBUF_BODIES = {
    "empty fields": lambda n: _envelope("v1", "Pod", _field(1, b"") * n),
    "labels": lambda n: _envelope(
        "v1", "Pod", _field(1, b"".join(_field(11, _field(1, b"%d" % i) + _field(2, b"v")) for i in range(n)))
    ),
    "unknown fields": lambda n: _envelope("v1", "Pod", b"\xf8\x01\x01" * n),
    "one field many times": lambda n: _envelope("v1", "Pod", _field(1, _field(1, b"a")) * n),
    "deep": lambda n: _envelope("v1", "Pod", _nested(2, min(n, 5000))),
    "deep schema": lambda n: _envelope(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", _field(2, _nested(10, min(n, 5000)))
    ),
    "deep and long": lambda n: _envelope("v1", "Pod", _nested(2, 90, b"\x00" * n)),
    "garbage": lambda n: protobuf.MAGIC + b"\xff" * n,
}
PATTERN = "^(a+)+$"


def _call(function, *arguments, **options):
    return functools.partial(function, *arguments, **options)


def _decode(media, build):
    return lambda n: _call(bodies.decode, media, _bytes(build(n)), 10_000_000)


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def _ignored(_key, _line):
    pass


POD = merge_schema.of_builtin("v1", "Pod")


def _pod(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def _containers(n, **fields):
    return [{"name": f"c{i}", **fields} for i in range(n)]


def _patched(target, operations):
    return _call(json_patch.apply, target, operations)


JSON_PATCHES = {
    "copies of copies": lambda n: _patched(
        {"metadata": {"a": "x" * 100}},
        [{"op": "copy", "from": "/metadata", "path": f"/metadata/x{i}"} for i in range(min(n, 10_000))],
    ),
    "insertions at the front": lambda n: _patched(
        {"a": [0] * n}, [{"op": "add", "path": "/a/0", "value": 1} for _ in range(min(n, 1000))]
    ),
    "removals from the front": lambda n: _patched(
        {"a": [0] * n}, [{"op": "remove", "path": "/a/0"} for _ in range(min(n, 1000))]
    ),
    "tests of a large object": lambda n: _patched(
        {"a": ["x"] * n}, [{"op": "test", "path": "", "value": {}} for _ in range(min(n, 10_000))]
    ),
    "long pointers": lambda n: _patched({}, [{"op": "add", "path": "/a" * n, "value": 1}]),
    "nesting moves": lambda n: _patched(
        {"a0": {}},
        [
            operation
            for i in range(min(n, 5000))
            for operation in (
                {"op": "add", "path": f"/a{i + 1}", "value": {}},
                {"op": "move", "from": f"/a{i}", "path": f"/a{i + 1}/a"},
            )
        ],
    ),
    "nesting additions": lambda n: _patched(
        {"a": {}}, [{"op": "add", "path": "/a" * (i % 200 + 1), "value": {}} for i in range(min(n, 9000))]
    ),
}
STRATEGIC_PATCHES = {
    "items by key": lambda n: ({"containers": _containers(n)}, {"containers": _containers(n, image="x")}),
    "new items": lambda n: ({"containers": []}, {"containers": _containers(n, image="x")}),
    "deleted items": lambda n: (
        {"containers": _containers(n)},
        {"containers": [{"$patch": "delete", "name": f"c{i}"} for i in range(n)]},
    ),
    "order": lambda n: ({"containers": _containers(n)}, {"$setElementOrder/containers": _containers(n)[::-1]}),
    "retained keys": lambda n: ({f"k{i}": 1 for i in range(n)}, {"$retainKeys": [f"k{i}" for i in range(n)]}),
    "deletions from a list": lambda n: (
        {"finalizers": [f"k{i}" for i in range(n)]},
        {"$deleteFromPrimitiveList/finalizers": [f"k{i}" for i in range(n)]},
    ),
}


def _strategic(build):
    def entry(n):
        target, patch = build(n)
        return _call(strategic.apply, POD, _pod(**target), _pod(**patch))

    return entry


def _finalizers(n):
    patch = {"metadata": {"finalizers": [f"k{i}" for i in range(n)]}}
    return _call(strategic.apply, POD, {"metadata": {"finalizers": [f"x{i}" for i in range(n)]}}, patch)


def _managers(n):
    return [
        {
            "manager": f"m{i}",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {f"f:a{i}": {}},
        }
        for i in range(n)
    ]


WRITER = managed_fields.Writer(name="m", api_version="v1", time="2026-01-01T00:00:00Z")


def _updated_managers(n):
    def call():
        obj = _pod(containers=_containers(n))
        obj["metadata"]["managedFields"] = _managers(n)
        managers = managed_fields.after_update(POD, None, obj, managers={}, writer=WRITER)
        managed_fields.write(obj, managers)

    return call


def _applied(n):
    live = _pod(containers=_containers(n, image="a"))
    text = msgspec.json.encode(_managers(n))

    def call():
        applied = _pod(containers=_containers(n, image="b"))
        managers = managed_fields.read_text(text)
        managed_fields.apply(POD, live, applied, managers=managers, writer=WRITER, force=True)

    return call


def _applied_by_client(build):
    """The configuration that a client says to have applied is compared with the object."""

    def entry(n):
        live = _pod(containers=_containers(10))
        live["metadata"]["annotations"] = {managed_fields._LAST_APPLIED: build(n)}
        return _call(managed_fields._applied_by_client, POD, live)

    return entry


def _field_of_yaml(text):
    with contextlib.suppress(yaml_reader.YamlError):
        yaml_reader.read_field(text)


def _applied_in_other_order(n):
    return _call(typed.merge, POD, _pod(containers=_containers(n)), _pod(containers=_containers(n)[::-1]))


def _deep(n):
    value = {}
    for _ in range(min(n, 100)):
        value = {"a": value}
    return value


LABEL_SELECTORS = {
    "blanks and a bracket": lambda n: " " * n + "(",
    "keys": lambda n: "a," * n + "a",
    "negations": lambda n: "!a," * n,
    "values": lambda n: "a in (" + "b," * n + "b)",
    "open brackets": lambda n: "a in (" * n,
    "one word": lambda n: "a" * n,
    "signs": lambda n: "=" * n,
    "exclamation marks": lambda n: "!" * n,
}
FIELD_SELECTORS = {
    "terms": lambda n: "metadata.name=a," * n,
    "blanks": lambda n: "a" + " " * n + "b",
    "backslashes": lambda n: "a=" + "\\" * n,
    "commas": lambda n: "," * n,
    "one word": lambda n: "a" * n,
    "signs": lambda n: "!" * n,
}
HEADERS = {
    "clauses": lambda n: "application/json;a=b," * n,
    "parameters": lambda n: "text/html" + ";q=1" * n,
    "quality": lambda n: "text/html;q=" + "9" * n,
}
TEXTS = {
    "letters": lambda n: "a" * n + "!",
    "digits": lambda n: "1" * n + "!",
    "labels": lambda n: "a." * n + "!",
    "dashes": lambda n: "a-" * n + "!",
    "hours": lambda n: "1h" * n + "!",
    "dots": lambda n: "." * n + "!",
    "at signs": lambda n: "a@" * n + "!",
    "fractions": lambda n: "2026-01-01T00:00:00." + "1" * n + "!",
}
READERS = {
    "quantity": quantity.parse,
    "duration": durations.to_ns,
    "dns label": syntax.dns_label,
    "dns subdomain": syntax.dns_subdomain,
    "label key": syntax.label_key,
    "label value": syntax.label_value,
    "integer": syntax.atoi,
    "accept": negotiation.form,
    "pattern": lambda text: text_formats.pattern(PATTERN).search(text),
    "find": lambda text: cel_strings._find(text, "(a+)+$"),
    "find all": lambda text: cel_strings._find_all(text, "(a+)+$"),
    **{f"format {name}": functools.partial(text_formats.conforms, name) for name in text_formats._CHECKS},
    **{
        f"pattern {number}": lambda text, pattern=pattern: text_formats.pattern(pattern).search(text)
        for number, pattern in enumerate(sorted(text_formats.declared_patterns()))
    },
}


def _headers(block):
    return hpack.Decoder().decode(block)


def _spdy(data):
    with contextlib.suppress(spdy.FrameError):
        collections.deque(spdy.SpdyDecoder().feed(data), maxlen=0)


def _spdy_pieces(data):
    decoder = spdy.SpdyDecoder()
    for at in range(len(data)):
        collections.deque(decoder.feed(data[at : at + 1]), maxlen=0)


def _spdy_opened(plain, count=1):
    """Streams whose headers are these, compressed."""
    compressor = zlib.compressobj(zdict=spdy.DICTIONARY)
    frames = []
    for _ in range(count):
        block = compressor.compress(plain) + compressor.flush(zlib.Z_SYNC_FLUSH)
        frames.append(spdy._control(1, bytes(10) + block))
    return b"".join(frames)


SPDY_FRAMES = {
    "empty frames": lambda n: bytes(8) * 64 * n,
    "pings": lambda n: spdy._control(6, bytes(4)) * n,
    "headers": lambda n: _spdy_opened(n.to_bytes(4, "big") + bytes(8 * n)),
    "streams": lambda n: _spdy_opened(bytes(4), n),
}
HEADER_BLOCKS = {
    "static fields": lambda n: b"\x82" * n,
    "new fields": lambda n: b"\x40\x01a\x01b" * n,
    "new fields, compressed": lambda n: b"\x40\x81\x1f\x81\x8f" * n,
    "large fields": lambda n: b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000 + b"\xbe" * n,
    "sizes of the table": lambda n: b"\x20\x3f\xe1\x1f" * n,
    "long number": lambda n: b"\xff" * n,
    "long value": lambda n: b"\x00\x01a\x7f\xff\xff\x03" + b"x" * n,
}

ENTRIES = {
    **{f"spdy: {name}": lambda n, b=build: _call(_spdy, b(n)) for name, build in SPDY_FRAMES.items()},
    "spdy: one frame in pieces": lambda n: _call(_spdy_pieces, b"\0\0\0\1" + n.to_bytes(4, "big") + bytes(n)),
    **{f"hpack: {name}": lambda n, b=build: _call(_headers, b(n)) for name, build in HEADER_BLOCKS.items()},
    **{f"json: {name}": _decode("application/json", build) for name, build in JSON_TEXTS.items()},
    **{f"yaml: {name}": _decode("application/yaml", build) for name, build in YAML_TEXTS.items()},
    **{f"protobuf: {name}": _decode(negotiation.PROTOBUF, build) for name, build in PROTOBUF_BODIES.items()},
    **{f"manifest: {name}": (lambda n, b=build: _call(manifests.read, b(n))) for name, build in YAML_TEXTS.items()},
    "manifest: list": lambda n: _call(manifests.read, "kind: List\nitems:\n" + "- {kind: A}\n" * n),
    "manifest: json with a long key": lambda n: _call(
        manifests.read, json.dumps({"k" * 2000: 1, "items": [[]] * n, "kind": "List"})
    ),
    "yaml: reader": lambda n: _call(yaml_reader.read, "- a\n" * n, _ignored),
    **{f"json patch: {name}": build for name, build in JSON_PATCHES.items()},
    **{f"strategic patch: {name}": _strategic(build) for name, build in STRATEGIC_PATCHES.items()},
    "strategic patch: set": _finalizers,
    "strategic patch: deep": lambda n: _call(strategic.apply, POD, _pod(), {"spec": _deep(n)}),
    "merge patch: deep": lambda n: _call(merge.apply, {}, _deep(n)),
    "managed fields: update": _updated_managers,
    "managed fields: apply": _applied,
    "apply: other order": _applied_in_other_order,
    **{f"applied by a client: {name}": _applied_by_client(build) for name, build in JSON_TEXTS.items()},
    **{
        f"yaml in a field: {name}": lambda n, b=build: _call(_field_of_yaml, b(n)) for name, build in YAML_TEXTS.items()
    },
    **{
        f"label selector: {name}": lambda n, b=build: _call(selectors.parse_labels, b(n))
        for name, build in LABEL_SELECTORS.items()
    },
    **{
        f"field selector: {name}": lambda n, b=build: _call(selectors.parse_fields, b(n), {"metadata.name"})
        for name, build in FIELD_SELECTORS.items()
    },
    **{f"accept header: {name}": lambda n, b=build: _call(negotiation.form, b(n)) for name, build in HEADERS.items()},
    "path: slashes": lambda n: _call(routes.parse, "GET", "/api/v1" + "/a" * n, {}),
    "path: percent signs": lambda n: _call(routes.parse, "GET", "/api/v1/" + "%2f" * n, {}),
    "query: parameters": lambda n: _call(routes.split_target, "/?" + "a=b&" * n),
    "query: number": lambda n: _call(options.number, {"limit": "9" * n}, "limit"),
    "token: base64": lambda n: _call(base64.urlsafe_b64decode, "QUFB" * n),
    **{
        f"{reader_name}: {name}": lambda n, r=reader, b=build: _call(r, b(n))
        for reader_name, reader in READERS.items()
        for name, build in TEXTS.items()
    },
}
