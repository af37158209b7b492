"""Two hundred manifests that no cluster would take, each with a name that says why."""

import copy
import json
from collections.abc import Iterator

import yaml

QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "queue"},
    "spec": {
        "cohortName": "team",
        "queueingStrategy": "BestEffortFIFO",
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Any"},
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor"},
        "fairSharing": {"weight": "1"},
        "stopPolicy": "None",
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {
                        "name": "default",
                        "resources": [
                            {"name": "cpu", "nominalQuota": "4", "borrowingLimit": "2", "lendingLimit": "1"},
                            {"name": "memory", "nominalQuota": "8Gi"},
                        ],
                    }
                ],
            }
        ],
    },
}
FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "gpu"},
    "spec": {
        "nodeLabels": {"pool": "gpu"},
        "nodeTaints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    },
}
WORKLOAD = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {"name": "w", "namespace": "ns"},
    "spec": {
        "queueName": "lq",
        "priority": 1,
        "active": True,
        "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}],
    },
}
LOCAL_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "LocalQueue",
    "metadata": {"name": "lq", "namespace": "ns"},
    "spec": {"clusterQueue": "queue", "stopPolicy": "None"},
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "ns", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
    "spec": {
        "parallelism": 2,
        "completions": 2,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}},
    },
}
CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "waitForPodsReady": {"timeout": "5m", "blockAdmission": False},
    "integrations": {"frameworks": ["batch/job"]},
    "clientConnection": {"qps": 10, "burst": 10},
    "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
}
COHORT = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Cohort",
    "metadata": {"name": "team"},
    "spec": {"parentName": "root", "fairSharing": {"weight": "1"}},
}
CHECK = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "AdmissionCheck",
    "metadata": {"name": "check"},
    "spec": {"controllerName": "example.com/check", "parameters": {"apiGroup": "a.io", "kind": "A", "name": "a"}},
}
TOPOLOGY = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
}
WELL_FORMED = (QUEUE, FLAVOR, WORKLOAD, LOCAL_QUEUE, JOB, CONFIGURATION, COHORT, CHECK, TOPOLOGY)

_WRONG = {dict: 7, list: {"a": {"b": 1}}, str: {"a": 1}, int: "many", bool: "perhaps", float: []}
_FREE = ("labels", "annotations", "template", "nodeLabels", "matchLabels")


def _places(value, path=()):
    """Every field of an object whose type is fixed."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), inner
            if key not in _FREE:
                yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*path, index))


def _replaced(obj, path, value):
    result = copy.deepcopy(obj)
    holder = result
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return result


def _name(obj, path, why):
    return f"{obj['kind']} {'.'.join(map(str, path))} {why}"


def _structural() -> Iterator[tuple[str, bytes]]:
    for obj in (JOB, QUEUE, FLAVOR, WORKLOAD, LOCAL_QUEUE, CONFIGURATION, COHORT, CHECK, TOPOLOGY):
        for path, value in _places(obj):
            yield _name(obj, path, "of the wrong type"), _text(_replaced(obj, path, _WRONG[type(value)]))
        for path, value in _places(obj):
            if isinstance(value, dict) and path[-1] not in (*_FREE, "resourceWeights"):
                misspelt = {**value, "nominalQuotta": 1}
                yield _name(obj, path, "with a misspelt field"), _text(_replaced(obj, path, misspelt))


def _text(obj) -> bytes:
    return yaml.safe_dump(obj, allow_unicode=True).encode()


def _values() -> Iterator[tuple[str, bytes]]:
    first = ("spec", "resourceGroups", 0, "flavors", 0)
    quota = (*first, "resources", 0)
    changes: list[tuple] = [
        (QUEUE, (*quota, "nominalQuota"), ["-1", "ten", "1e", "--1", "", "1 Gi", "0x10", "١"]),
        (QUEUE, (*quota, "borrowingLimit"), ["-1", "lots"]),
        (QUEUE, (*quota, "lendingLimit"), ["-1", "5"]),
        (QUEUE, (*quota, "name"), ["memory", "@cpu"]),
        (QUEUE, ("spec", "queueingStrategy"), ["LIFO", ""]),
        (QUEUE, ("spec", "stopPolicy"), ["Pause"]),
        (QUEUE, ("spec", "cohortName"), ["Bad_Cohort", "x" * 300]),
        (QUEUE, ("spec", "preemption", "reclaimWithinCohort"), ["Sometimes"]),
        (QUEUE, ("spec", "fairSharing", "weight"), ["-1", "1n"]),
        (QUEUE, ("spec", "namespaceSelector"), [{"matchLabels": {"bad key!": "x"}}]),
        (QUEUE, ("spec", "resourceGroups", 0, "coveredResources"), [["cpu", "cpu"], ["cpu"]]),
        (QUEUE, (*first[:-1],), [[], [{"name": "a"}, {"name": "a"}]]),
        (QUEUE, ("metadata", "name"), ["Bad_Name", "", "a" * 254]),
        (QUEUE, ("metadata", "labels"), [{"a": 1}, {"bad key": "x"}, {"a": "x" * 64}]),
        (FLAVOR, ("spec", "nodeTaints", 0, "effect"), ["Sometimes"]),
        (FLAVOR, ("spec", "nodeLabels"), [{"a b": "c"}, {"a": "not ok!"}]),
        (FLAVOR, ("spec", "tolerations", 0, "operator"), ["Maybe"]),
        (WORKLOAD, ("spec", "podSets", 0, "count"), [-1]),
        (WORKLOAD, ("spec", "podSets", 0, "name"), ["Not_A_Label", "x" * 64]),
        (WORKLOAD, ("spec", "podSets"), [[], [WORKLOAD["spec"]["podSets"][0]] * 2, [WORKLOAD["spec"]["podSets"][0]] * 19]),
        (LOCAL_QUEUE, ("spec", "clusterQueue"), ["Bad_Name", ""]),
        (JOB, ("spec", "completions"), [-1]),
        (JOB, ("spec", "template", "spec", "restartPolicy"), ["Always", "Perhaps"]),
        (JOB, ("spec", "template", "spec", "containers"), [[], [{"image": "x"}], [{"name": "c"}], [{"name": "B C", "image": "x"}]]),
        (JOB, ("metadata", "labels"), [{"kueue.x-k8s.io/queue-name": "bad_queue"}, {"kueue.x-k8s.io/max-exec-time-seconds": "0"}]),
        (CONFIGURATION, ("waitForPodsReady", "timeout"), ["soon", "-5m", "5"]),
        (CONFIGURATION, ("integrations", "frameworks"), [["batch/jobs"], ["pod", "pod"]]),
        (CONFIGURATION, ("fairSharing", "preemptionStrategies"), [[], ["Fairly"]]),
        (CONFIGURATION, ("featureGates",), [{"Faster": True}, {"HierarchicalCohorts": False}]),
        (CONFIGURATION, ("apiVersion",), ["config.kueue.x-k8s.io/v9"]),
    ]  # fmt: skip
    for obj, path, wrongs in changes:
        for wrong in wrongs:
            yield _name(obj, path, f"= {str(wrong)[:20]}"), _text(_replaced(obj, path, wrong))


def _texts() -> Iterator[tuple[str, bytes]]:
    deep = "a: " + "{b: " * 5000 + "1" + "}" * 5000
    bomb = "a: &a [x]\n" + "".join(
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
    )
    long_label = _replaced(QUEUE, ("metadata", "labels"), {"a": "x" * 10_000_000})
    yield "10 MB string", json.dumps(long_label).encode()
    yield "10 MB scalar", b"a: " + b"x" * 10_000_000
    yield "deep flow mapping", deep.encode()
    yield "deep flow sequence", b"[" * 100_000
    yield "deep block mapping", "\n".join(" " * level + "a:" for level in range(500)).encode()
    yield "anchor bomb", bomb.encode()
    yield "endless anchor", b"a: &a\n  b: *a\n"
    yield "unknown alias", b"a: *b\n"
    yield "bad UTF-8", b"kind: \xff\xfe\n"
    yield "truncated UTF-8", "kind: é".encode()[:-1]
    yield "UTF-16", "kind: Job\n".encode("utf-16")
    yield "zero bytes", b"kind: \x00\n"
    yield "control characters", b"kind: \x07\n"
    yield "tabs", b"spec:\n\tname: x\n"
    yield "open quote", b'kind: "Job\n'
    yield "open bracket", b"items: [1, 2\n"
    yield "two keys alike", b"kind: Job\nkind: Pod\n"
    yield "a number", b"42\n"
    yield "a list", b"- kind: Job\n"
    yield "a text", b"hello world\n"
    yield "a python object", b"!!python/object/apply:os.system [ls]\n"
    yield "binary tag", b"kind: !!binary 8J+Y\n"
    yield "not a number", b"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: {parallelism: .nan}\n"
    yield "infinity", b"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: {parallelism: .inf}\n"
    yield (
        "a huge number",
        b"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: {parallelism: 1" + b"0" * 400 + b"}\n",
    )
    yield "no kind", b"apiVersion: batch/v1\nmetadata: {name: x}\n"
    yield "no apiVersion", b"kind: Job\nmetadata: {name: x}\n"
    yield "kind is a list", b"apiVersion: v1\nkind: [Job]\nmetadata: {name: x}\n"
    yield "unknown version", b"apiVersion: kueue.x-k8s.io/v7\nkind: ClusterQueue\nmetadata: {name: x}\n"
    yield "misspelt kind", b"apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQeue\nmetadata: {name: x}\n"
    yield "metadata is a text", b"apiVersion: v1\nkind: ConfigMap\nmetadata: x\n"
    yield "no name", b"apiVersion: batch/v1\nkind: Job\nspec: {template: {}}\n"
    yield "key is a list", b"? [a, b]\n: c\n"
    yield "merge of a text", b"<<: hello\nkind: Job\n"
    yield "templated", b"kind: {{ .Values.kind }}\n"


def manifests(count: int = 200) -> dict[str, bytes]:
    """The texts and values first; the structural ones, of which there are enough, fill up."""
    texts = {**dict(_texts()), **dict(_values())}
    for name, data in _structural():
        if len(texts) == count:
            break
        texts.setdefault(name, data)
    return texts
