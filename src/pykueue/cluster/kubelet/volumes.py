"""Volumes as directories: ConfigMaps, Secrets and the downward API written as files, empty directories, host paths.

Processes share this machine's file system, so a mount path is not mounted: `Mounts` names the directory that stands
for it, and the process runtime rewrites paths under a mount path in commands, variables and working directories.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pykueue.api.scheme import Object
from pykueue.cluster.kubelet import environment
from pykueue.cluster.kubelet.environment import Find, MissingSourceError


@dataclass(frozen=True, slots=True)
class Mounts:
    """Directory by mount path."""

    directories: Mapping[str, Path] = field(default_factory=dict)

    def rewrite(self, text: str) -> str:
        """Every mount path in the text, alone or as the start of a path, becomes its directory."""
        for mount_path in sorted(self.directories, key=len, reverse=True):
            pattern = rf"(?<![\w./-]){re.escape(mount_path.rstrip('/'))}(?=$|[/\s:;,'\"])"
            text = re.sub(pattern, str(self.directories[mount_path]).replace("\\", r"\\"), text)
        return text


def prepare(pod: Object, root: Path, find: Find) -> dict[str, Path]:
    """Makes the pod's volumes under `root`; returns the directory of each by name."""
    made: dict[str, Path] = {}
    for volume in pod["spec"].get("volumes") or ():
        name = volume["name"]
        if "hostPath" in volume:
            made[name] = Path(volume["hostPath"]["path"])
            continue
        directory = root / name
        directory.mkdir(parents=True, exist_ok=True)
        for relative, content, mode in _files(volume, pod, find):
            _write(directory, relative, content, mode)
        made[name] = directory
    return made


def mounts(container: Object, directories: Mapping[str, Path]) -> Mounts:
    paths: dict[str, Path] = {}
    for mount in container.get("volumeMounts") or ():
        directory = directories.get(mount["name"])
        if directory is not None:
            paths[mount["mountPath"]] = directory / mount.get("subPath", "")
    return Mounts(paths)


File = tuple[str, bytes, int]


def _files(volume: Object, pod: Object, find: Find) -> Iterable[File]:
    if "projected" in volume:
        mode = int(volume["projected"].get("defaultMode", 0o644))
        for source in volume["projected"].get("sources") or ():
            yield from _source_files(source, pod, find, mode)
    else:
        yield from _source_files(volume, pod, find, None)


def _source_files(source: Object, pod: Object, find: Find, mode: int | None) -> Iterable[File]:
    for field_name, kind, name_field in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
        if given := source.get(field_name):
            name = given.get(name_field) or given.get("name")
            usual = mode if mode is not None else int(given.get("defaultMode", 0o644))
            yield from _data_files(kind, given | {"name": name}, find, usual)
    if given := source.get("downwardAPI"):
        for item in given.get("items") or ():
            path = (item.get("fieldRef") or {}).get("fieldPath")
            text = (
                environment.field_value(pod, path)
                if path
                else environment.resource_value(pod, {}, item.get("resourceFieldRef") or {})
            )
            yield item["path"], text.encode(), int(item.get("mode", 0o644))


def _data_files(kind: str, given: Object, find: Find, mode: int) -> Iterable[File]:
    data = environment.data_of(kind, given["name"], find)
    if data is None:
        if given.get("optional"):
            return
        raise MissingSourceError(f'{kind.lower()} "{given["name"]}" not found')
    items = given.get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        if item["key"] not in data:
            if given.get("optional"):
                continue
            raise MissingSourceError(f"references non-existent {kind.lower()} key: {item['key']}")
        yield item["path"], data[item["key"]], int(item.get("mode", mode))


def _write(directory: Path, relative: str, content: bytes, mode: int) -> None:
    target = directory / relative
    if ".." in Path(relative).parts or Path(relative).is_absolute():
        raise MissingSourceError(f"invalid path {relative!r}: must be relative and not contain '..'")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_bytes() != content:
        target.write_bytes(content)
    target.chmod(mode | 0o400)
