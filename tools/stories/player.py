"""The steps of the story format, each a method of `Story`, and the play from first to last step."""

import json
import re
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from tools.stories import fleet, kubelet, observe, shorthand
from tools.stories.cluster import KINDS, MERGE_PATCH, TABLE, path
from tools.stories.fleet import MANAGER
from tools.stories.session import DELETE, POLL_SECONDS, StorySession, polls

Json = dict[str, Any]

_WAIT_SECONDS = 12
_SPACING_SECONDS = 1.1
"""Creation timestamps have a resolution of one second, and decide the order of a queue."""


class Story(StorySession):
    """`play` returns what a golden file holds."""

    @property
    def needs(self) -> set[str]:
        needs = self.document.get("needs") or []
        return set(needs if isinstance(needs, list) else [needs])

    def play(self) -> Json:
        for _ in self._each_cluster():
            for name, options in self._namespaces.items():
                self._create_namespace(self._names.namespace(name), (options or {}).get("labels") or {})
        for step in self.document["steps"]:
            self._step_number += 1
            self.api = self._clusters[step.get("in", MANAGER)]
            verb = next(key for key in step if key in _STEPS)
            _STEPS[verb](self, step[verb], step)
        for _ in self._each_cluster():
            self._snapshot()
        time.sleep(0.3)
        normalize = self._names.normalize
        return {
            **self._heading(),
            "needs": self.document.get("needs") or [],
            "observations": self._observations,
            "responses": normalize(self._responses),
            "warnings": normalize(self._warnings),
            "reads": self._reads,
            "timeouts": self._timeouts,
            "events": self._events(),
            "unstable": normalize(self.document.get("unstable") or []),
            "unstableEvents": normalize(self.document.get("unstableEvents") or []),
        }

    def crash_report(self, error: Exception) -> Json:
        return {**self._heading(), "crashed": self._names.normalize(repr(error))}

    def make(self, entries: Any, step: Json) -> None:
        for index, entry in enumerate(_as_list(entries)):
            if index and step.get("spaced"):
                time.sleep(_SPACING_SECONDS)
            label = f"step {self._step_number}.{index}"
            if step.get("label"):
                label = step["label"] if index == 0 else f"{step['label']} {index}"
            self._create(shorthand.expand(entry, self._names), step, label)

    def bad(self, entries: Json, step: Json) -> None:
        for label, entry in entries.items():
            self._create(shorthand.expand(entry, self._names), {**step, "expect_error": True}, label)

    def patch(self, options: Json, step: Json) -> None:
        obj = self._wait_for(options["of"])
        if obj is None:
            self._timeouts.append(f"{self._label(step)}: nothing to patch: {self._names.normalize(options['of'])}")
            return
        kind, metadata = obj.get("kind") or "Workload", obj["metadata"]
        self._kinds.add(kind)
        target = path(kind, metadata.get("namespace"), metadata["name"], options.get("subresource"))
        self._request(step, "PATCH", target, options["merge"], content_type=MERGE_PATCH)

    def delete(self, options: Any, step: Json) -> None:
        reference = options if isinstance(options, str) else options["of"]
        obj = self._wait_for(reference)
        if obj is None:
            self._time_out(f"nothing to delete: {reference}")
            return
        metadata = obj["metadata"]
        target = path(obj.get("kind") or "Workload", metadata.get("namespace"), metadata["name"])
        self._request(step, "DELETE", target, DELETE)

    def wait(self, options: Any, _step: Json) -> None:
        for condition in _as_list(options):
            value = None
            for _ in polls(condition.get("timeout", _WAIT_SECONDS) * self._patience):
                obj = self._get(condition["of"])
                value = _dig(obj, condition["path"]) if obj else None
                if obj and _holds(value, condition):
                    break
            else:
                expected = json.dumps(condition.get("equals", "exists"))
                self._time_out(f"{condition['of']} {condition['path']}: wanted {expected}, last {json.dumps(value)}")

    def runs(self, references: Any, step: Json) -> None:
        for reference in _as_list(references):
            condition = {"of": reference, "path": _suspend_path(reference)}
            # A RayJob that runs may have no suspend field at all.
            expected = {"exists": False} if reference.startswith("RayJob") else {"equals": False}
            self.wait({**condition, **expected}, step)

    def stops(self, references: Any, step: Json) -> None:
        for reference in _as_list(references):
            self.wait({"of": reference, "path": _suspend_path(reference), "equals": True}, step)

    def pends(self, references: Any, step: Json) -> None:
        for reference in _as_list(references):
            condition = "status.conditions[type=QuotaReserved].status"
            self.wait({"of": f"wl:{reference}", "path": condition, "equals": "False"}, step)

    def admitted(self, references: Any, step: Json) -> None:
        for reference in _as_list(references):
            self.wait({"of": reference, "path": "status.conditions[type=Admitted].status", "equals": "True"}, step)

    def gone(self, options: Any, _step: Json) -> None:
        condition = options if isinstance(options, dict) else {"of": options}
        for _ in polls(condition.get("timeout", _WAIT_SECONDS) * self._patience):
            if not self._get(condition["of"]):
                return
        self._time_out(f"{condition['of']} still exists")

    def settle(self, quiet_seconds: Any, _step: Json) -> None:
        """Wait until no object of the story changes for some time."""
        is_number = isinstance(quiet_seconds, int | float) and not isinstance(quiet_seconds, bool)
        quiet = (quiet_seconds if is_number else self._quiet_seconds) * min(self._patience, 2)
        versions, since, end = None, time.monotonic(), time.monotonic() + max(30, quiet * 4)
        while time.monotonic() < end:
            current = {
                (cluster, kind, obj["metadata"].get("namespace"), obj["metadata"]["name"]): obj["metadata"][
                    "resourceVersion"
                ]
                for cluster in self._each_cluster()
                for kind, objects in self._snapshot().items()
                for obj in objects
            }
            if current != versions:
                versions, since = current, time.monotonic()
            elif time.monotonic() - since >= quiet:
                return
            time.sleep(2 * POLL_SECONDS)
        self._time_out("did not settle")

    def sleep(self, seconds: float, _step: Json) -> None:
        time.sleep(seconds)

    def observe(self, label: str, step: Json) -> None:
        if step.get("settle") is not False:
            self.settle(step.get("settle"), step)
        observed: Json = {}
        for cluster in self._each_cluster():
            options = {"with_pods": "Pod" in self._kinds, "with_status": bool(self.fleet.workers)}
            observed[cluster] = observe.observation(label, self._snapshot(), self._names, **options)
        observation = observed.pop(MANAGER)
        for cluster in observed.values():
            del cluster["label"]
        self._observations.append(observation | ({"clusters": observed} if observed else {}))

    def pods(self, options: Json, step: Json) -> None:
        """Bring pods of a Job, or one named Pod, into a state, as the kubelet would."""
        count, state = options.get("count", 1), options["state"]
        namespace = self._names.namespace(options.get("ns"))
        pods: list[Json] = []
        for _ in polls(options.get("timeout", _WAIT_SECONDS) * self._patience):
            pods = [pod for pod in self._running_pods(namespace, options) if not kubelet.has_state(pod, state)]
            if len(pods) >= count:
                break
        else:
            self._time_out(f"only {len(pods)} of {count} pods to make {state}")
        for pod in sorted(pods, key=kubelet.pod_order)[:count]:
            target = path("Pod", namespace, pod["metadata"]["name"], "status")
            self._request(step, "PATCH", target, {"status": kubelet.pod_status(pod, state)}, content_type=MERGE_PATCH)

    def _running_pods(self, namespace: str, options: Json) -> list[Json]:
        if "job" in options:
            selector = urllib.parse.quote(f"batch.kubernetes.io/job-name={options['job']}")
            pods = self.api.request("GET", f"{path('Pod', namespace)}?labelSelector={selector}").items
        else:
            pod = self.api.request("GET", path("Pod", namespace, options["pod"])).body
            pods = [pod] if pod.get("metadata") else []
        return [
            pod
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
            and pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def check(self, options: Json, step: Json) -> None:
        """Set the state of an admission check, as its controller would."""
        name = self._names.unique(options["name"])

        def change(workload: Json) -> Json | None:
            checks = (workload.get("status") or {}).get("admissionChecks") or []
            for check in checks:
                if check["name"] == name:
                    check |= {"state": options["state"], "message": options.get("message", "")}
                    check |= {"lastTransitionTime": kubelet.now()}
                    check |= {key: options[key] for key in ("podSetUpdates", "requeueAfterSeconds") if key in options}
                    return {"admissionChecks": checks}
            return None

        self._patch_status(options["of"], step, change)

    def condition(self, options: Json, step: Json) -> None:
        def change(obj: Json) -> Json:
            conditions = (obj.get("status") or {}).get("conditions") or []
            condition = {
                "type": options["type"],
                "status": str(options["status"]),
                "reason": options.get("reason", "Story"),
                "message": options.get("message", ""),
                "lastTransitionTime": kubelet.now(),
            }
            others = [other for other in conditions if other["type"] != options["type"]]
            status: Json = shorthand.merge({"conditions": [*others, condition]}, options.get("status_extra") or {})
            return status

        self._patch_status(options["of"], step, change)

    def read(self, options: Json, step: Json) -> None:
        """Record an object as one API version shows it."""
        if options["of"].startswith("wl:"):
            metadata = (self._wait_for(options["of"]) or {})["metadata"]
            kind, namespace, name = "Workload", metadata["namespace"], metadata["name"]
        else:
            kind, namespace, name = self._parse_reference(options["of"])
        label = self._label(step)
        response = self.api.request("GET", path(kind, namespace, name, version=options.get("apiVersion")))
        if response.warnings:
            self._warnings.setdefault(label, []).extend(map(self._names.normalize, response.warnings))
        if response.code != 200:
            self._reads[label] = self._answer(response)
            return
        self._snapshot()
        obj = response.body
        metadata_fields = ("name", "labels", "annotations", "finalizers")
        fields = options.get("fields") or [key for key in obj if key not in ("apiVersion", "kind", "metadata")]
        document = {
            "apiVersion": obj.get("apiVersion"),
            "kind": obj.get("kind"),
            "metadata": {key: obj["metadata"][key] for key in metadata_fields if obj["metadata"].get(key)},
            **{key: obj[key] for key in fields if key in obj},
        }
        self._reads[label] = observe.without_times(self._names.normalize(document))

    def table(self, options: Json, step: Json) -> None:
        """Record what `kubectl get` shows: columns and cells, without the age."""
        kind = options["kind"]
        label = step.get("label") or f"{kind} {options.get('apiVersion') or KINDS[kind].api_version}"
        self._snapshot()
        namespace = self._names.namespace(options.get("ns")) if KINDS[kind].namespaced else None
        response = self.api.request("GET", path(kind, namespace, version=options.get("apiVersion")), accept=TABLE)
        if response.warnings:
            self._warnings.setdefault(label, []).extend(response.warnings)
        if response.code != 200 or "columnDefinitions" not in response.body:
            self._reads[label] = self._answer(response)
            return
        columns = response.body["columnDefinitions"]
        indexes = [index for index, column in enumerate(columns) if column["name"] != "Age"]
        rows = [
            ["" if row["cells"][index] is None else str(row["cells"][index]) for index in indexes]
            for row in response.body.get("rows") or ()
            if KINDS[kind].namespaced or str(row["cells"][0]).endswith(f"-{self._names.suffix}")
        ]
        headers = [columns[index]["name"] + (" (wide)" if columns[index].get("priority") else "") for index in indexes]
        rows.sort(key=lambda row: str(self._names.normalize(row[0])))
        self._reads[label] = self._names.normalize({"columns": headers, "rows": rows})

    def label_namespace(self, options: Json, step: Json) -> None:
        target = path("Namespace", name=self._names.namespace(options.get("ns")))
        self._request(step, "PATCH", target, {"metadata": {"labels": options["labels"]}}, content_type=MERGE_PATCH)

    # Several clusters

    def make_fleet(self, options: Json, step: Json) -> None:
        """Queues on all clusters, and on the manager what MultiKueue needs to use the workers."""
        names = list(self.fleet.workers)
        self._clusters[MANAGER].request("POST", "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
        for name in names:
            self.api = self._clusters[name]
            self.make(fleet.worker_objects(options, name), step)
            self.api = self._clusters[MANAGER]
            self.kubeconfig({"of": name}, step)
        self.make(fleet.manager_objects(options, names), step)
        for reference in (f"AdmissionCheck/{fleet.CHECK}", f"ClusterQueue/{fleet.QUEUE}"):
            condition = {"path": "status.conditions[type=Active].status", "equals": "True", "timeout": 30}
            self.wait({"of": reference, **condition}, step)

    def kubeconfig(self, options: Json, step: Json) -> None:
        """Write, replace or delete the Secret with the kubeconfig of a worker."""
        name = self._names.unique(options["of"])
        text = options.get("text") or self.fleet.workers[options["of"]].kubeconfig(options.get("merge"))
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"kubeconfig": text}}
        if options.get("delete"):
            self.api.request("DELETE", f"{fleet.SECRETS}/{name}")
            return
        response = self.api.request("POST", fleet.SECRETS, secret)
        if response.code == 409:
            response = self.api.request("PATCH", f"{fleet.SECRETS}/{name}", secret, content_type=MERGE_PATCH)
        self._record(step, self._label(step), response)

    def network(self, states: Json, _step: Json) -> None:
        """Cut, silence, slow down or restore the connections from the manager to workers."""
        for name, state in states.items():
            proxy = self.fleet.workers[name].proxy
            if isinstance(state, dict):
                proxy.set_state("open", state["delay"])
            else:
                proxy.set_state(state)

    def cluster(self, actions: Json, _step: Json) -> None:
        for name, action in actions.items():
            self.fleet.control(name, action)


_STEPS: dict[str, Callable[[Story, Any, Json], None]] = {
    "make": Story.make,
    "create": Story.make,
    "apply": Story.make,
    "bad": Story.bad,
    "patch": Story.patch,
    "delete": Story.delete,
    "gone": Story.gone,
    "wait": Story.wait,
    "runs": Story.runs,
    "stops": Story.stops,
    "pends": Story.pends,
    "admitted": Story.admitted,
    "settle": Story.settle,
    "observe": Story.observe,
    "sleep": Story.sleep,
    "pods": Story.pods,
    "check": Story.check,
    "condition": Story.condition,
    "read": Story.read,
    "table": Story.table,
    "label-namespace": Story.label_namespace,
    "fleet": Story.make_fleet,
    "kubeconfig": Story.kubeconfig,
    "network": Story.network,
    "cluster": Story.cluster,
}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _holds(value: Any, condition: Json) -> bool:
    if "equals" in condition:
        return bool(value == condition["equals"])
    return (value not in (None, False)) is bool(condition.get("exists", True))


def _dig(value: Any, text: str) -> Any:
    """The value at `a.b[0].c`, `a[type=X].status` or `labels['x/y']`, or None."""
    for token in re.findall(r"\['[^']*'\]|\[[^\]]*\]|[^.\[\]]+", text):
        if value is None:
            return None
        if token.startswith("['"):
            value = value.get(token[2:-2]) if isinstance(value, dict) else None
        elif token.startswith("["):
            value = _element(value, token[1:-1])
        else:
            value = value.get(token) if isinstance(value, dict) else None
    return value


def _element(items: Any, selector: str) -> Any:
    key, equals, expected = selector.partition("=")
    if equals:
        return next((item for item in items if str(item.get(key)) == expected), None)
    return items[int(key)] if isinstance(items, list) and int(key) < len(items) else None


def _suspend_path(reference: str) -> str:
    return "spec.runPolicy.suspend" if reference.startswith("PyTorchJob") else "spec.suspend"
