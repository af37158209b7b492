"""Volumes as directories: ConfigMaps, Secrets and the downward API as files, emptyDir, hostPath.

Processes share this machine's file system, so nothing is mounted. `Mounts` maps each mount path to
a directory, and the process runtime replaces mount paths in commands, variables and working
directories.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.kubelet import environment
from pykueue.cluster.kubelet.environment import Find, MissingSourceError


@dataclass(frozen=True, slots=True)
class Mounts:
    """The directory of each mount path."""

    directories: Mapping[str, Path] = field(default_factory=dict)

    def rewrite(self, text: str) -> str:
        """Replace every mount path in the text, also as the start of a path, by its directory."""
        for mount_path in sorted(self.directories, key=len, reverse=True):
            pattern = rf"(?<![\w./-]){re.escape(mount_path.rstrip('/'))}(?=$|[/\s:;,'\"])"
            text = re.sub(pattern, str(self.directories[mount_path]).replace("\\", r"\\"), text)
        return text


def prepare(pod: Object, root: Path, find: Find) -> dict[str, Path]:
    """Create the pod's volumes below `root`; return their directories by volume name."""
    directories: dict[str, Path] = {}
    for volume in pod["spec"].get("volumes") or ():
        name = volume["name"]
        if "hostPath" in volume:
            directories[name] = Path(volume["hostPath"]["path"])
            continue
        directory = root / name
        directory.mkdir(parents=True, exist_ok=True)
        for relative, content, mode in _files(volume, pod, find):
            _write(directory, relative, content, mode)
        directories[name] = directory
    return directories


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
        if volume_source := source.get(field_name):
            name = volume_source.get(name_field) or volume_source.get("name")
            default_mode = mode if mode is not None else int(volume_source.get("defaultMode", 0o644))
            yield from _data_files(kind, volume_source | {"name": name}, find, default_mode)
    if volume_source := source.get("downwardAPI"):
        for item in volume_source.get("items") or ():
            path = objects.nested(item, "fieldRef").get("fieldPath")
            text = (
                environment.field_value(pod, path)
                if path
                else environment.resource_value(pod, {}, objects.nested(item, "resourceFieldRef"))
            )
            yield item["path"], text.encode(), int(item.get("mode", 0o644))


def _data_files(kind: str, volume_source: Object, find: Find, mode: int) -> Iterable[File]:
    data = environment.data_of(kind, volume_source["name"], find)
    if data is None:
        if volume_source.get("optional"):
            return
        raise MissingSourceError(f'{kind.lower()} "{volume_source["name"]}" not found')
    items = volume_source.get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        if item["key"] not in data:
            if volume_source.get("optional"):
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
