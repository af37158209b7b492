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
from pykueue.cluster import paths
from pykueue.cluster.kubelet import environment
from pykueue.cluster.kubelet.environment import Find, MissingSourceError
from pykueue.cluster.paths import UnsafePathError

_SOURCES = ("configMap", "downwardAPI", "emptyDir", "hostPath", "projected", "secret")
"""What a volume may be here. A volume without a source is an emptyDir."""


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
    """Create the pod's volumes beneath `root`; return their directories by volume name.

    A volume's directory is called after its index, so that no name of a user becomes a path.
    """
    root.mkdir(parents=True, exist_ok=True)
    directories: dict[str, Path] = {}
    for index, volume in enumerate(pod["spec"].get("volumes") or ()):
        name = volume["name"]
        _refuse_unavailable(volume)
        try:
            if "hostPath" in volume:
                directories[name] = paths.of_host(volume["hostPath"]["path"])
                continue
            directories[name] = directory = paths.make_directory(root, objects.uid(pod), str(index))
            for relative, content, mode in _files(volume, pod, find):
                paths.write_file(directory, relative, content, mode & 0o777 | 0o400)
        except UnsafePathError as error:
            raise MissingSourceError(f'volume "{name}": {error}') from error
    return directories


def _refuse_unavailable(volume: Object) -> None:
    """Raise MissingSourceError for a volume that outlives pods elsewhere, such as a claim.

    A directory of the pod in its place would be deleted with the pod, and what was saved with it.
    """
    for source in volume.keys() - {"name", *_SOURCES}:
        reason = f"volumes of type {source} do not exist here; use a hostPath volume for files that stay"
        raise MissingSourceError(f'volume "{volume["name"]}": {reason}')


def check_sources(pod: Object, find: Find) -> None:
    """Raise MissingSourceError if a volume of the pod cannot be prepared. Writes nothing."""
    for volume in pod["spec"].get("volumes") or ():
        for _file in _files(volume, pod, find):
            pass


def mounts(pod: Object, container: Object, variables: Mapping[str, str], directories: Mapping[str, Path]) -> Mounts:
    """The directories of a container's volume mounts, with their `subPath` or `subPathExpr`."""
    on_host = {volume["name"] for volume in pod["spec"].get("volumes") or () if "hostPath" in volume}
    mounted: dict[str, Path] = {}
    for mount in container.get("volumeMounts") or ():
        directory = directories.get(mount["name"])
        if directory is None:
            continue
        relative = mount.get("subPath") or environment.expand(mount.get("subPathExpr") or "", variables)
        try:
            path = paths.beneath(directory, relative, create=mount["name"] not in on_host)
        except (UnsafePathError, OSError) as error:
            reason = f'failed to prepare subPath for volumeMount "{mount["name"]}" of container "{container["name"]}"'
            raise MissingSourceError(f"{reason}: {error}") from error
        mounted[mount["mountPath"]] = path
    return Mounts(mounted)


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
