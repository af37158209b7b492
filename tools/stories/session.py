"""One run of a story on a cluster: objects, requests, records and the clean-up at the end."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from tools.stories import observe
from tools.stories.cluster import APPLY_PATCH, JOB_KINDS, KINDS, MERGE_PATCH, ApiClient, Response, path
from tools.stories.fleet import MANAGER, SECRETS, Fleet
from tools.stories.names import Names

Json = dict[str, Any]

_QUIET_SECONDS = 2.2
POLL_SECONDS = 0.1
DELETE = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
_DELETE_AT_ONCE = {**DELETE, "gracePeriodSeconds": 0}
_NAMESPACED_KINDS = (
    *JOB_KINDS,
    "Workload",
    "LocalQueue",
)
_CLUSTER_KINDS = (
    "ClusterQueue",
    "Cohort",
    "ResourceFlavor",
    "AdmissionCheck",
    "MultiKueueConfig",
    "MultiKueueCluster",
    "WorkloadPriorityClass",
    "PriorityClass",
    "RuntimeClass",
    "Topology",
    "Node",
    "DeviceClass",
    "ResourceSlice",
)


class StorySession:
    """One run of a story file: its names, its objects, its requests and what is recorded."""

    def __init__(
        self,
        api: ApiClient,
        file: Path,
        *,
        workers: Mapping[str, Path] | None = None,
        control: str = "",
        patience: float = 1,
    ) -> None:
        self.api = api
        """The cluster that the current step is about."""
        self.key = file.stem
        self.variant = file.parent.name
        self._names = Names()
        self.document: Json = yaml.safe_load(self._names.expand(file.read_text()))
        self._patience = patience
        """The factor of all waiting times, for a slow machine."""
        self._quiet_seconds = self.document.get("quiet", _QUIET_SECONDS)
        self._namespaces: Json = self.document.get("namespaces") or {"ns": {}}
        self.fleet = Fleet(self.document.get("clusters") or [], workers or {}, control)
        self._clusters = {MANAGER: api} | {name: worker.api for name, worker in self.fleet.workers.items()}
        self._kinds: set[str] = set()
        self._step_number = 0
        self._observations: list[Json] = []
        self._responses: Json = {}
        self._warnings: dict[str, list[str]] = {}
        self._reads: Json = {}
        self._timeouts: list[str] = []

    def _heading(self) -> Json:
        return {"story": self.key, "variant": self.variant, "claim": self.document.get("claim")}

    def _each_cluster(self) -> Iterator[str]:
        """The names of the clusters; each is the current one while its name is yielded."""
        current = self.api
        try:
            for name, api in self._clusters.items():
                self.api = api
                yield name
        finally:
            self.api = current

    def _create_namespace(self, namespace: str, labels: Json) -> None:
        """Pods need the service account, which no controller creates on a bare API server."""
        metadata = {"name": namespace, "labels": labels}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        self.api.request("POST", "/api/v1/namespaces", body)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.api.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account)

    # Objects

    def _parse_reference(self, reference: str) -> tuple[str, str | None, str]:
        """`Kind/name` or `Kind/namespace/name`."""
        kind, *rest = reference.split("/")
        if not KINDS[kind].namespaced:
            return kind, None, self._names.unique(rest[0])
        return kind, self._names.namespace(rest[0] if len(rest) == 2 else None), rest[-1]

    def _get(self, reference: str) -> Json | None:
        if reference.startswith("wl:"):
            return self._workload_of(reference[3:])
        response = self.api.request("GET", path(*self._parse_reference(reference)))
        return response.body if response.code == 200 else None

    def _workload_of(self, reference: str) -> Json | None:
        kind, namespace, name = self._parse_reference(reference)
        workloads = [
            workload
            for workload in self.api.request("GET", path("Workload", namespace)).items
            if any(
                owner["kind"] == kind and owner["name"] == name
                for owner in workload["metadata"].get("ownerReferences") or ()
            )
        ]
        workloads.sort(
            key=lambda workload: (
                bool(workload["metadata"].get("deletionTimestamp")),
                workload["metadata"]["creationTimestamp"],
            )
        )
        return workloads[0] if workloads else None

    def _wait_for(self, reference: str, timeout_seconds: float = 15) -> Json | None:
        for _ in polls(timeout_seconds):
            obj = self._get(reference)
            if obj:
                return obj
        return None

    def _list(self, kind: str) -> list[Json]:
        """The objects of a kind that belong to this run."""
        if KINDS[kind].namespaced:
            namespaces = [self._names.namespace(name) for name in self._namespaces]
            return [obj for namespace in namespaces for obj in self.api.request("GET", path(kind, namespace)).items]
        suffix = f"-{self._names.suffix}"
        objects = self.api.request("GET", path(kind)).items
        return [obj for obj in objects if obj["metadata"]["name"].endswith(suffix)]

    def _snapshot(self) -> observe.Snapshot:
        snapshot = {kind: self._list(kind) for kind in sorted((self._kinds | {"Workload"}) - {"Namespace"})}
        for kind, objects in snapshot.items():
            for obj in objects:
                self._names.remember(kind, obj["metadata"])
        return snapshot

    # Requests

    def _label(self, step: Json) -> str:
        return step.get("label") or f"step {self._step_number}"

    def _time_out(self, text: str) -> None:
        self._timeouts.append(self._names.normalize(f"step {self._step_number}: {text}"))

    def _request(
        self, step: Json, method: str, target: str, body: Json, *, label: str = "", content_type: str = ""
    ) -> Response:
        """Send a write; a patch that conflicts is repeated, unless the step expects an error."""
        label = label or self._label(step)
        options = {"content_type": content_type} if content_type else {}
        for _ in range(20):
            response = self.api.request(method, target, body, **options)
            if response.code != 409 or method != "PATCH" or step.get("expect_error"):
                break
            time.sleep(POLL_SECONDS)
        self._record(step, label, response)
        return response

    def _record(self, step: Json, label: str, response: Response) -> None:
        """Record warnings always, and the answer if it is an error or the step expects one."""
        if response.warnings:
            self._warnings.setdefault(label, []).extend(map(self._names.normalize, response.warnings))
        if step.get("expect_error") or response.code >= 400:
            self._responses[label] = self._answer(response)

    def _answer(self, response: Response) -> Json:
        if response.code < 400:
            return {"code": response.code, "accepted": True}
        normalize = self._names.normalize
        body = response.body
        answer = {"code": response.code, "reason": body.get("reason"), "message": normalize(body.get("message", ""))}
        causes = [
            {"field": cause.get("field"), "reason": cause.get("reason"), "message": normalize(cause.get("message"))}
            for cause in (body.get("details") or {}).get("causes") or ()
        ]
        return answer | ({"causes": sorted(causes, key=json.dumps)} if causes else {})

    def _create(self, manifest: Json, step: Json, label: str) -> None:
        """Create an object; with the step `apply` an object that exists is applied over."""
        kind, metadata = manifest["kind"], manifest.get("metadata") or {}
        self._kinds.add(kind)
        target = path(kind, metadata.get("namespace"), version=manifest["apiVersion"])
        response = self._request(step, "POST", target, manifest, label=label)
        if response.code == 409 and "apply" in step:
            self._responses.pop(label, None)
            target = f"{target}/{metadata['name']}?fieldManager=story&force=true"
            response = self._request(step, "PATCH", target, manifest, label=label, content_type=APPLY_PATCH)
        if response.code < 300:
            self._names.remember_uid(kind, response.body["metadata"])

    def _patch_status(self, reference: str, step: Json, change: Callable[[Json], Json | None]) -> None:
        """Patch the status of an object, guarded by its version; repeated on a conflict.

        `change` returns the status to merge, or None if the object is not ready for it.
        """
        for _ in range(30):
            obj = self._wait_for(reference)
            if obj is None:
                self._time_out(f"there is no {reference}")
                return
            status = change(obj)
            if status is None:
                time.sleep(2 * POLL_SECONDS)
                continue
            metadata = obj["metadata"]
            body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
            target = path(obj.get("kind") or "Workload", metadata.get("namespace"), metadata["name"], "status")
            response = self.api.request("PATCH", target, body, content_type=MERGE_PATCH)
            if response.code != 409:
                self._record(step, self._label(step), response)
                return
        self._time_out(f"the status of {reference} could not be patched")

    # The end

    def _events(self) -> list[str]:
        """The events of Kueue's own recorders on objects of the story's namespaces."""
        lines: set[str] = set()
        for cluster in self._each_cluster():
            place = "" if cluster == MANAGER else f"{cluster}: "
            for name in self._namespaces:
                namespace = self._names.namespace(name)
                response = self.api.request("GET", path("Event", namespace))
                if response.code != 200:
                    response = self.api.request("GET", path("Event", namespace, version="v1"))
                events = [event for event in response.items if "kueue" in _reporter(event)]
                lines |= {place + self._event_line(event) for event in events}
        return sorted(lines)

    def _event_line(self, event: Json) -> str:
        obj = event.get("regarding") or event.get("involvedObject") or {}
        note = event.get("note") or event.get("message") or ""
        line = f"{obj.get('kind')}/{obj.get('name')} {event.get('type')} {event.get('reason')}: {note}"
        normalized: str = self._names.normalize(line)
        return normalized

    def clean_up(self) -> None:
        """Delete everything that the story created, and finalizers that nobody would remove."""
        for name, worker in self.fleet.workers.items():
            worker.proxy.set_state("open")
            self._clusters[MANAGER].request("DELETE", f"{SECRETS}/{self._names.unique(name)}")
        for _ in self._each_cluster():
            self._clean_up_cluster()
        self.fleet.close()

    def _clean_up_cluster(self) -> None:
        kinds = self._kinds | {"Workload"}
        self._delete_all(*(kind for kind in _NAMESPACED_KINDS if kind in kinds), body=_DELETE_AT_ONCE)
        owned = [kind for kind in ("Workload", *JOB_KINDS) if kind in kinds]
        for _ in polls(8, 0.3):
            remaining = [(kind, obj) for kind in owned for obj in self._list(kind)]
            if not remaining:
                break
            for kind, obj in remaining:
                if not obj["metadata"].get("deletionTimestamp"):
                    self.api.request("DELETE", _object_path(kind, obj), _DELETE_AT_ONCE)
        self._remove_finalizers(*(kind for kind in ("Workload", "Pod", "Job") if kind in kinds))
        self._delete_all(*(kind for kind in _CLUSTER_KINDS if kind in kinds))
        for name in self._namespaces:
            self.api.request("DELETE", path("Namespace", name=self._names.namespace(name)))
        finalized = [kind for kind in ("ClusterQueue", "ResourceFlavor", "AdmissionCheck") if kind in kinds]
        for _ in polls(8, 0.3):
            if not any(self._list(kind) for kind in finalized):
                return
        self._remove_finalizers(*finalized)

    def _delete_all(self, *kinds: str, body: Json | None = None) -> None:
        for kind in kinds:
            for obj in self._list(kind):
                self.api.request("DELETE", _object_path(kind, obj), body)

    def _remove_finalizers(self, *kinds: str) -> None:
        for kind in kinds:
            for obj in self._list(kind):
                body = {"metadata": {"finalizers": None}}
                self.api.request("PATCH", _object_path(kind, obj), body, content_type=MERGE_PATCH)


def polls(timeout_seconds: float, pause_seconds: float = POLL_SECONDS) -> Iterator[None]:
    """Yield until the time is over, at least once, with a pause after each."""
    end = time.monotonic() + timeout_seconds
    while True:
        yield
        if time.monotonic() > end:
            return
        time.sleep(pause_seconds)


def _object_path(kind: str, obj: Json) -> str:
    return path(kind, obj["metadata"].get("namespace"), obj["metadata"]["name"])


def _reporter(event: Json) -> str:
    source = event.get("deprecatedSource") or event.get("source") or {}
    component = event.get("reportingController") or event.get("reportingComponent") or ""
    return component + (source.get("component") or "")
