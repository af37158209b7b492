"""A fake API that performs the writes of a sync on plain objects, without a server."""

import copy
import itertools
from datetime import UTC, datetime, timedelta

from pykueue.api import errors, times
from pykueue.kube.controller import writes

START = datetime(2026, 1, 1, tzinfo=UTC)


def merge(target, patch, *, by_key=False):
    for key, value in patch.items():
        if by_key and key == "conditions":
            by_type = {condition["type"]: condition for condition in target.get(key, [])}
            for condition in value:
                by_type.setdefault(condition["type"], {})
                merge(by_type[condition["type"]], condition)
            target[key] = list(by_type.values())
        elif value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value, by_key=by_key)
        else:
            target[key] = copy.deepcopy(value)


class Crash(Exception):  # noqa: N818 - not an error of ours
    pass


class FakeApi:
    """Objects by (kind, name). `run` raises Crash after `crash_after` writes."""

    def __init__(self):
        self.now = START
        self.objects = {}
        self.events = []
        self.serial = itertools.count(1)
        self.refuse = lambda _write: False

    def add(self, obj):
        obj = copy.deepcopy(obj)
        metadata = obj["metadata"]
        number = next(self.serial)
        metadata.setdefault("name", metadata.get("generateName", "x-") + f"{number:05d}")
        metadata.setdefault("namespace", "default")
        metadata |= {
            "uid": f"uid-{number}",
            "creationTimestamp": times.to_text(self.now),
            "resourceVersion": str(number),
        }
        self.objects[obj["kind"], metadata["name"]] = obj
        return obj

    def of(self, kind):
        return [copy.deepcopy(obj) for (object_kind, _), obj in self.objects.items() if object_kind == kind]

    def get(self, kind, name):
        return self.objects[kind, name]

    def touch(self, obj):
        obj["metadata"]["resourceVersion"] = str(next(self.serial))
        metadata = obj["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and self.is_over(obj):
            self.objects.pop((obj["kind"], metadata["name"]), None)

    @staticmethod
    def is_over(obj):
        """Whether a deleted object may be removed: a bound pod stays until it has finished."""
        return (
            obj["kind"] != "Pod" or not obj["spec"].get("nodeName") or obj["status"]["phase"] in ("Succeeded", "Failed")
        )

    def run(self, sync, *, crash_after=None):
        results = None
        left = itertools.count() if crash_after is None else itertools.chain(range(crash_after), itertools.repeat(-1))
        try:
            while True:
                batch = sync.send(results)
                results = []
                for write in batch:
                    if next(left) < 0:
                        raise Crash
                    results.append(self.perform(write))
        except StopIteration as stop:
            return stop.value

    def perform(self, write):
        if self.refuse(write):
            return writes.Refused(errors.forbidden("", "pods", "x", "no"))
        match write:
            case writes.Event():
                self.events.append((write.type, write.reason, write.message))
                return {}
            case writes.Create():
                obj = self.add(write.object)
                if obj["kind"] == "Pod":
                    obj["status"] = {"phase": "Pending"}
                return copy.deepcopy(obj)
        key = write.object["kind"], write.object["metadata"]["name"]
        obj = self.objects.get(key)
        if obj is None:
            return write.object
        match write:
            case writes.Delete():
                obj["metadata"].setdefault("deletionTimestamp", times.to_text(self.now))
            case writes.RemoveFinalizer():
                others = [name for name in obj["metadata"].get("finalizers", []) if name != write.finalizer]
                obj["metadata"]["finalizers"] = others
            case writes.Patch():
                if write.guarded and obj["metadata"]["resourceVersion"] != write.object["metadata"]["resourceVersion"]:
                    return writes.Refused(errors.conflict("", "x", key[1], "changed"))
                merge(obj, write.patch, by_key=write.by_key)
        self.touch(obj)
        return copy.deepcopy(obj)

    def pass_time(self, seconds):
        self.now += timedelta(seconds=seconds)

    def end_pod(self, pod, exit_code=0):
        obj = self.objects[pod["kind"], pod["metadata"]["name"]]
        ended = {"exitCode": exit_code, "finishedAt": times.to_text(self.now)}
        obj["status"] = {
            "phase": "Failed" if exit_code else "Succeeded",
            "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
        }
        self.touch(obj)

    def start_pod(self, pod):
        obj = self.objects[pod["kind"], pod["metadata"]["name"]]
        obj["spec"].setdefault("nodeName", "node")
        obj["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.touch(obj)

    def event_reasons(self):
        return [reason for _, reason, _ in self.events]
