"""Numbers of thousands of digits are errors of the client."""

import pytest

from pykueue.api import integers, registry, resources, times
from pykueue.api.errors import ApiError
from pykueue.apiserver.calls import ADMIN, ListCall, ResourceTarget
from pykueue.apiserver.core import Core
from pykueue.apiserver.http import options
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.cluster.kubelet.logs import Query

DIGITS = "9" * 5000


@pytest.fixture
async def core():
    core = Core(Store(MemoryLog()), registry.scheme())
    yield core
    await core.store.close()


def refused(call):
    with pytest.raises(ApiError) as error:
        call()
    assert error.value.code == 400
    assert len(error.value.message) < 500


@pytest.mark.parametrize("text", [DIGITS, f"-{DIGITS}", "1_0", " 1", "١", "", "+", "0x1", str(2**63)])
def test_a_number_is_an_int64_as_go_reads_it(text):
    refused(lambda: integers.signed(text, "limit"))


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("-5", -5), ("+7", 7), ("007", 7), (str(2**63 - 1), 2**63 - 1)])
def test_go_reads_these(text, value):
    assert integers.signed(text, "limit") == value


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds", "gracePeriodSeconds"])
def test_query_parameters(name):
    refused(lambda: options.number({name: DIGITS}, name))


@pytest.mark.parametrize("name", ["tailLines", "limitBytes"])
def test_log_options(name):
    refused(lambda: Query.parse({name: DIGITS}))


async def test_resource_versions(core):
    target = ResourceTarget(kind=core.scheme.for_kind("v1", "Pod"), namespace="default")
    for call in (ListCall(resource_version=DIGITS), ListCall(continue_token="eyJydiI6" + "OTk5" * 2000)):
        with pytest.raises(ApiError) as error:
            await core.list(target, call)
        assert error.value.code == 400


def test_grace_periods():
    refused(lambda: options.delete_call({}, {"gracePeriodSeconds": 10**400}, ADMIN))


@pytest.mark.parametrize("seconds", [2**63 - 1, 10**12, 2**31])
async def test_a_running_pod_may_have_any_grace_period(core, seconds):
    client = LocalClient(core, core.scheme)
    await client.create(resources.NAMESPACE, {"metadata": {"name": "default"}})
    container = {"name": "c", "image": "i"}
    spec = {"containers": [container], "nodeName": "n", "terminationGracePeriodSeconds": seconds}
    await client.create(resources.POD, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    await client.delete(resources.POD, "p", "default")
    pod = await client.get(resources.POD, "p", "default")
    assert times.parse(pod["metadata"]["deletionTimestamp"]).year < 3000
    target = ResourceTarget(kind=core.scheme.for_kind("v1", "Pod"), namespace="default", name="p")
    call = options.delete_call({}, {"gracePeriodSeconds": seconds - 1}, ADMIN)
    await core.delete(target, call)
