"""Names of one run of a story: unique while it runs, and the same in every observation."""

import random
import re
from typing import Any

_LETTERS = "bcdfghjklmnpqrstvwxz"
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_WORKLOAD = re.compile(
    r"\b((?:job|pytorchjob|mpijob|jobset|rayjob|raycluster|rayservice|pod|statefulset|leaderworkerset|deployment"
    r"|appwrapper)-[a-z0-9][a-z0-9-]*)-[0-9a-f]{5}\b"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?\+0000 UTC|Z)?( m=\+[\d.]+)?")
_WAITED = re.compile(r"\bwas \d+(\.\d+)?s\b")
_RESOURCE_VERSION = re.compile(r'resourceVersion: "?\d+"?')
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_GENERATED = re.compile(r"-[0-9a-f]{5}$")


def is_generated(workload_name: str) -> bool:
    """Whether the name ends in a hash, as the names do that Kueue generates for Workloads."""
    return _GENERATED.search(workload_name) is not None


class Names:
    """Cluster-scoped names and namespaces get a suffix for each run; `normalize` removes it."""

    def __init__(self) -> None:
        self.suffix = "z" + "".join(random.choice(_LETTERS) for _ in range(5))
        self._labels_by_uid: dict[str, str] = {}
        self._workloads: dict[str, str] = {}
        """Generated names of Workloads, to the name with the hash masked."""

    def unique(self, name: str) -> str:
        return name if name.endswith(f"-{self.suffix}") else f"{name}-{self.suffix}"

    def namespace(self, name: str | None) -> str:
        return self.unique(name or "ns")

    def plain(self, name: str) -> str:
        return name.replace(f"-{self.suffix}", "")

    def expand(self, text: str) -> str:
        """Replace `${name}` by the unique name."""
        return re.sub(r"\$\{([A-Za-z][\w.-]*)\}", lambda match: f"{match[1]}-{self.suffix}", text)

    def remember_uid(self, kind: str, metadata: dict[str, Any]) -> None:
        if metadata.get("uid"):
            self._labels_by_uid.setdefault(metadata["uid"], f"{kind} {self.plain(metadata['name'])}")

    def remember(self, kind: str, metadata: dict[str, Any]) -> None:
        """Remember the UID of an object, and a generated name of a Workload."""
        name = self.plain(metadata["name"])
        label = f"{kind} {name}"
        owner = next(iter(metadata.get("ownerReferences") or ()), None)
        if kind == "Workload" and owner and is_generated(metadata["name"]):
            self._workloads[metadata["name"]] = f"{name[:-5]}#####"
            label = f"wl {owner['kind']}/{owner['name']}"
        self._labels_by_uid[metadata["uid"]] = label

    def normalize(self, value: Any) -> Any:
        """Replace everything that differs from run to run, in all texts of a JSON value."""
        if isinstance(value, dict):
            return {self.normalize(key): self.normalize(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.normalize(item) for item in value]
        return self._normalize_text(value) if isinstance(value, str) else value

    def _normalize_text(self, text: str) -> str:
        for uid, label in self._labels_by_uid.items():
            text = text.replace(uid, f"<uid of {label}>")
        text = text.replace(f"-{self.suffix}", "").replace(self.suffix, "")
        text = _UID.sub("<uid>", text)
        for name, masked in self._workloads.items():
            text = text.replace(self.plain(name), masked)
        text = _WORKLOAD.sub(r"\1-#####", text)
        text = _TIME.sub("<time>", text)
        text = _WAITED.sub("was <n>s", text)
        text = _PORT.sub("127.0.0.1:<port>", text)
        return _RESOURCE_VERSION.sub("resourceVersion: <n>", text)
