import pytest

from pykueue.cluster.kubelet import environment, volumes
from pykueue.cluster.kubelet.volumes import Mounts

POD = {
    "metadata": {
        "name": "p",
        "namespace": "team",
        "uid": "u",
        "labels": {"app": "web"},
        "annotations": {"note": "hello"},
    },
    "spec": {"nodeName": "n1", "containers": []},
    "status": {"podIP": "10.0.0.9"},
}
OBJECTS = {
    ("ConfigMap", "settings"): {"data": {"COLOR": "blue", "size": "9"}},
    ("Secret", "keys"): {"data": {"token": "czNjcmV0"}},
}


def find(kind, name):
    return OBJECTS.get((kind, name))


def variables(**container):
    return environment.variables(POD, container, find)


def test_later_variables_may_use_earlier_ones():
    assert (
        variables(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)-$(NONE)-$$(A)"}])["B"]
        == "1-$(NONE)-$(A)"
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "team"),
        ("metadata.labels['app']", "web"),
        ("metadata.annotations['note']", "hello"),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "10.0.0.9"),
    ],
)
def test_downward_fields(path, value):
    assert variables(env=[{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]) == {"X": value}


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [("limits.cpu", "1", "2"), ("limits.cpu", "1m", "1500"), ("requests.memory", "1Mi", "256")],
)
def test_downward_resources(resource, divisor, value):
    resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "256Mi"}}
    reference = {"resource": resource, "divisor": divisor}
    env = [{"name": "X", "valueFrom": {"resourceFieldRef": reference}}]
    assert variables(name="main", resources=resources, env=env) == {"X": value}


def test_config_maps_and_secrets():
    env = [
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "x", "optional": True}}},
    ]
    assert variables(envFrom=[{"prefix": "MY_", "configMapRef": {"name": "settings"}}], env=env) == {
        "MY_COLOR": "blue",
        "MY_size": "9",
        "TOKEN": "s3cret",
    }


def test_a_missing_config_map_is_named():
    with pytest.raises(environment.MissingSourceError, match='configmap "no" not found'):
        variables(envFrom=[{"configMapRef": {"name": "no"}}])


def test_command_words_are_expanded():
    assert environment.command({"command": ["echo"], "args": ["$(A)"]}, {"A": "1"}) == ["echo", "1"]


def test_volumes_become_directories(tmp_path):
    pod = POD | {
        "spec": {
            "volumes": [
                {"name": "code", "configMap": {"name": "settings", "items": [{"key": "size", "path": "sub/size.txt"}]}},
                {"name": "secret", "secret": {"secretName": "keys"}},
                {"name": "scratch", "emptyDir": {}},
                {
                    "name": "info",
                    "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]},
                },
                {"name": "host", "hostPath": {"path": "/srv"}},
            ]
        }
    }
    directories = volumes.prepare(pod, tmp_path, find)
    assert (directories["code"] / "sub/size.txt").read_text() == "9"
    assert (directories["secret"] / "token").read_text() == "s3cret"
    assert directories["scratch"].is_dir()
    assert (directories["info"] / "name").read_text() == "p"
    assert str(directories["host"]) == "/srv"


def test_a_key_cannot_leave_its_volume(tmp_path):
    item = {"key": "size", "path": "../../escape"}
    pod = POD | {"spec": {"volumes": [{"name": "v", "configMap": {"name": "settings", "items": [item]}}]}}
    with pytest.raises(environment.MissingSourceError, match="must be one name"):
        volumes.prepare(pod, tmp_path, find)


def test_paths_under_a_mount_are_rewritten(tmp_path):
    mounts = Mounts({"/home/ray/samples": tmp_path})
    assert mounts.rewrite("python /home/ray/samples/code.py") == f"python {tmp_path}/code.py"
    assert mounts.rewrite("/home/ray/samples") == str(tmp_path)
    assert mounts.rewrite("/home/ray/samples2 /mnt/home/ray/samples") == "/home/ray/samples2 /mnt/home/ray/samples"
