"""Whatever a pod's spec says, preparing its volumes changes nothing outside its own directory.

Pods of older versions are in the store unchecked, so this does not rely on validation.
"""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykueue.api.reserved_keys import LOCAL_NAMES, LOCAL_PORTS, PORT_GROUP
from pykueue.cluster.kubelet import volumes
from pykueue.cluster.kubelet.environment import MissingSourceError
from pykueue.cluster.runtimes.port_mapping import PortMappings

UID = "11111111-2222-3333-4444-555555555555"
NAMES = st.sampled_from(
    [
        "..",
        "../..",
        "../../..",
        ".",
        "",
        "/",
        "/tmp",
        "a",
        "a/b",
        "a/../../b",
        "a\x00b",
        "x" * 300,
        "..data",
        "link",
        "../../tokens.csv",
        "link/tokens.csv",
        "~",
        "store",
        "../store",
        "a\nb",
        "*",
        "0",
        "1",
        "../0",
    ]
)
KEYS = st.dictionaries(NAMES, st.sampled_from([b"", b"x"]), max_size=3)
ITEMS = st.lists(
    st.fixed_dictionaries({"key": NAMES, "path": NAMES}, optional={"mode": st.integers(-1, 70000)}), max_size=3
)
SOURCES = st.one_of(
    st.just({"emptyDir": {}}),
    st.fixed_dictionaries({"configMap": st.fixed_dictionaries({"name": NAMES}, optional={"items": ITEMS})}),
    st.fixed_dictionaries({"secret": st.fixed_dictionaries({"secretName": NAMES}, optional={"items": ITEMS})}),
    st.fixed_dictionaries({"hostPath": st.fixed_dictionaries({"path": NAMES})}),
    st.builds(
        lambda path, field: {"downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": field}}]}},
        NAMES,
        st.sampled_from(["metadata.name", "metadata.annotations", "spec..", "metadata.labels['../x']"]),
    ),
    st.builds(
        lambda name, items: {"projected": {"sources": [{"configMap": {"name": name, "items": items}}]}}, NAMES, ITEMS
    ),
)
VOLUMES = st.lists(st.builds(lambda name, source: {"name": name} | source, NAMES, SOURCES), max_size=3)
MOUNTS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "mountPath": NAMES}, optional={"subPath": NAMES, "subPathExpr": NAMES | st.just("$(UP)/$(UP)")}
    ),
    max_size=3,
)


def tree_hash(root, but):
    """A hash of names, types, modes, links and contents below `root`, without the directory `but`."""
    digest = hashlib.sha256()
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if Path(directory, name) != but)
        for name in sorted([*names, *files]):
            path = Path(directory, name)
            status = path.lstat()
            digest.update(f"{path} {status.st_mode} {status.st_nlink}".encode(errors="surrogateescape"))
            if path.is_symlink():
                digest.update(os.fsencode(path.readlink()))
            elif path.is_file():
                digest.update(path.read_bytes())
    return digest.hexdigest()


@contextlib.contextmanager
def data_directory():
    """A data directory with secrets, and the links that an earlier attempt of the pod has left."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        data = root / "data"
        own = data / "cluster" / "volumes" / UID
        for index in ("0", "1"):
            (own / index).mkdir(parents=True)
            (own / index / "link").symlink_to(data)
            (own / index / "a").symlink_to(data / "tokens.csv")
        (own / "2").symlink_to(data)
        (data / "tokens.csv").write_text("token,admin,1,system:masters\n")
        (data / "store").mkdir()
        (data / "cluster" / "ports").mkdir()
        yield data, own


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(pod_volumes=VOLUMES, container_mounts=MOUNTS, contents=KEYS, group=NAMES, ports=NAMES)
def test_hostile_pods_change_nothing_outside_their_directory(pod_volumes, container_mounts, contents, group, ports):
    annotations = {PORT_GROUP: group, LOCAL_NAMES: ports, LOCAL_PORTS: f"80,{ports},99999"}
    metadata = {"name": "p", "namespace": "ml", "uid": UID, "annotations": annotations}
    container = {"name": "c", "volumeMounts": container_mounts}
    pod = {"metadata": metadata, "spec": {"volumes": pod_volumes, "containers": [container]}}

    def find(kind, _name):
        data = {key: value.decode() for key, value in contents.items()}
        return {"data": data} if kind == "ConfigMap" else {"stringData": data}

    with data_directory() as (data, own):
        before = tree_hash(data, own)
        with contextlib.suppress(MissingSourceError):
            directories = volumes.prepare(pod, data / "cluster" / "volumes", find)
            mounted = volumes.mounts(pod, container, {"UP": ".."}, directories)
            hosts = {volume["name"] for volume in pod_volumes if "hostPath" in volume}
            for mount in container_mounts:
                path = mounted.directories.get(mount["mountPath"])
                assert path is None or mount["name"] in hosts or own in path.resolve().parents
        assert tree_hash(data, own) == before
        PortMappings(data / "cluster" / "ports").mapping_of(pod)
        written = list((data / "cluster" / "ports").iterdir())
        assert all(path.stem.isalnum() and path.suffix == ".json" for path in written)
        for path in written:
            path.unlink()
        assert tree_hash(data, own) == before
