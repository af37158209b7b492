"""Bodies as Go clients write them, built here field by field."""

import base64

import pytest

from pykueue.api.builtin import kinds
from pykueue.api.errors import ApiError
from pykueue.apiserver.http import protobuf


def field(number, value):
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def envelope(api_version, kind, message):
    names = field(1, api_version.encode()) + field(2, kind.encode())
    return protobuf.MAGIC + field(1, names) + field(2, message)


def test_a_config_map_reads_as_its_json():
    metadata = field(1, field(1, b"it") + field(2, b"") + field(3, b"ns") + field(8, b""))
    data = field(2, field(1, b"key") + field(2, b"value"))
    assert protobuf.decode(envelope("v1", "ConfigMap", metadata + data)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "it", "namespace": "ns"},
        "data": {"key": "value"},
    }


def test_a_pointer_to_zero_is_kept_and_a_plain_zero_is_not():
    spec = field(1, 0) + field(4, b"") + field(5, 0)
    deployment = protobuf.decode(envelope("apps/v1", "Deployment", field(2, spec)))
    assert deployment["spec"]["replicas"] == 0
    assert "minReadySeconds" not in deployment["spec"]


def test_quantities_times_and_numbers_or_strings():
    quantity = field(1, b"cpu") + field(2, field(1, b"500m"))
    container = field(1, b"c") + field(8, field(2, quantity))
    pod = protobuf.decode(envelope("v1", "Pod", field(2, field(2, container))))
    assert pod["spec"]["containers"] == [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]
    port = field(4, field(1, 1) + field(3, b"http"))
    service = protobuf.decode(envelope("v1", "Service", field(2, field(1, port))))
    assert service["spec"]["ports"][0]["targetPort"] == "http"


def test_micro_times_have_six_digits():
    lease = protobuf.decode(envelope("coordination.k8s.io/v1", "Lease", field(2, field(4, field(1, 0) + field(2, 0)))))
    assert lease["spec"]["renewTime"] == "1970-01-01T00:00:00.000000Z"


def test_inlined_structs_lie_flat():
    volume = field(1, b"v") + field(2, field(2, b""))
    pod = protobuf.decode(envelope("v1", "Pod", field(2, field(1, volume))))
    assert pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_secrets_are_base64():
    secret = protobuf.decode(envelope("v1", "Secret", field(2, field(1, b"k") + field(2, b"\x00\xff"))))
    assert secret["data"] == {"k": base64.b64encode(b"\x00\xff").decode()}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", 400),
        (b"{}", 400),
        (protobuf.MAGIC + b"\xff\xff", 400),
        (envelope("v1", "Pod", b"\x12\x7f"), 400),
        (envelope("v1", "Pod", field(2, 5)), 400),
        (envelope("kueue.x-k8s.io/v1beta2", "Workload", b""), 415),
    ],
)
def test_anything_else_is_refused(data, code):
    with pytest.raises(ApiError) as refused:
        protobuf.decode(data)
    assert refused.value.code == code


@pytest.mark.parametrize("kind", [kind for kind in kinds.kinds() if kind.is_builtin], ids=lambda kind: kind.kind)
def test_every_kind_of_kubernetes_is_read(kind):
    named = field(1, field(1, b"it"))
    obj = protobuf.decode(envelope(kind.api_version, kind.kind, named))
    assert (obj["kind"], obj["metadata"]) == (kind.kind, {"name": "it"})


def test_a_device_class_reads_as_its_json():
    selector = field(1, field(1, field(1, b"device.driver == 'd'")))
    device_class = protobuf.decode(envelope("resource.k8s.io/v1", "DeviceClass", field(2, selector)))
    assert device_class["spec"] == {"selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}
