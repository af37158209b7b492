"""Every field of a security context is kept, or refused with a message that names it."""

import msgspec
import pytest

from pykueue.cluster.kubelet.security_context import RefusedFieldError, security_of
from pykueue.cluster.runtimes.isolation import Isolation
from pykueue.cluster.runtimes.linux_calls import CAPABILITIES
from pykueue.cluster.runtimes.sandbox import ContainerSecurity, UnixUser

ROOT = Isolation(server=UnixUser(uid=0, gid=0, name="root"), first_uid=5000)
ALICE = Isolation(server=UnixUser(uid=1000, gid=1000, groups=(1000, 44), name="alice"), obstacle="it needs root")
OFF = Isolation(server=UnixUser(uid=0, gid=0, name="root"), is_enabled=False)
JANE = UnixUser(uid=5000, gid=5000, name="pykueue-ml")
ALL = tuple(range(len(CAPABILITIES)))


def decide(isolation, user=None, *, pod=None, container=None, **spec):
    container_spec = {"name": "main", "securityContext": container or {}}
    pod_spec = {"containers": [container_spec], "securityContext": pod or {}} | spec
    return security_of({"spec": pod_spec}, container_spec, user, isolation)


def isolated(user, **fields):
    rights = {"has_seccomp_filter": True, "no_new_privileges": True} | fields
    return ContainerSecurity(user=user, has_pid_namespace=True, **rights)


def refusal(*arguments, **fields):
    with pytest.raises(RefusedFieldError) as caught:
        decide(*arguments, **fields)
    return str(caught.value)


def test_the_server_s_user_without_a_security_context():
    assert decide(ALICE) == decide(OFF) == ContainerSecurity()
    assert decide(ROOT) == ContainerSecurity(has_pid_namespace=True)


def test_the_user_of_a_namespace():
    assert decide(ROOT, JANE) == isolated(JANE)


def test_the_filter_of_system_calls_is_kept_or_refused():
    default, unconfined = ({"seccompProfile": {"type": name}} for name in ("RuntimeDefault", "Unconfined"))
    assert decide(ALICE, pod=default) == ContainerSecurity(has_seccomp_filter=True, no_new_privileges=True)
    assert decide(OFF, container=default) == ContainerSecurity(has_seccomp_filter=True)
    assert not decide(ROOT, pod=default, container=unconfined).has_seccomp_filter
    assert not decide(ROOT, pod=default, container={"privileged": True}).has_seccomp_filter
    assert not decide(ROOT, pod=unconfined | {"runAsUser": 7}).has_seccomp_filter
    assert "seccompProfile: Unconfined" in refusal(ROOT, JANE, container=unconfined)
    without = msgspec.structs.replace(ROOT, has_seccomp=False)
    assert "seccompProfile: RuntimeDefault" in refusal(without, pod=default)
    assert not decide(without, JANE).has_seccomp_filter


@pytest.mark.parametrize(
    ("isolation", "user"), [(ROOT, JANE), (ALICE, None)], ids=["isolated namespace", "ordinary user"]
)
@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"container": {"runAsUser": 65534}}, "securityContext.runAsUser: 65534"),
        ({"pod": {"runAsUser": 0}}, "securityContext.runAsUser: 0"),
        ({"container": {"runAsGroup": 27}}, "securityContext.runAsGroup: 27"),
        ({"pod": {"fsGroup": 27}}, "securityContext.fsGroup: 27"),
        ({"pod": {"supplementalGroups": [27]}}, "securityContext.supplementalGroups: 27"),
        ({"container": {"privileged": True}}, "securityContext.privileged: true"),
        ({"container": {"capabilities": {"add": ["NET_ADMIN"]}}}, "securityContext.capabilities.add: NET_ADMIN"),
        ({"container": {"seccompProfile": {"type": "Localhost"}}}, "securityContext.seccompProfile: Localhost"),
        ({"pod": {"appArmorProfile": {"type": "Localhost"}}}, "securityContext.appArmorProfile: Localhost"),
        ({"pod": {"seLinuxOptions": {"level": "s0"}}}, "securityContext.seLinuxOptions"),
        ({"pod": {"sysctls": [{"name": "kernel.shmmax", "value": "1"}]}}, "securityContext.sysctls: kernel.shmmax"),
        ({"hostUsers": False}, "spec.hostUsers: false"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_kept_is_refused(isolation, user, fields, name):
    message = refusal(isolation, user, **fields)
    assert message.startswith(name)
    assert "remove the field" in message or "use RuntimeDefault" in message


@pytest.mark.parametrize("field", ["hostPID", "hostIPC", "shareProcessNamespace"])
def test_an_isolated_pod_shares_no_namespaces(field):
    assert refusal(ROOT, JANE, **{field: True}).startswith(f"spec.{field}: true")


@pytest.mark.parametrize("isolation", [ROOT, OFF])
def test_root_is_not_hidden_behind_run_as_non_root(isolation):
    assert refusal(isolation, pod={"runAsNonRoot": True}).startswith("securityContext.runAsNonRoot: true")
    assert decide(ALICE, pod={"runAsNonRoot": True}) == ContainerSecurity()
    assert decide(ROOT, JANE, container={"runAsNonRoot": True}).user == JANE


def test_root_may_choose_another_user_in_its_own_namespaces():
    security = decide(ROOT, pod={"runAsUser": 65534, "runAsGroup": 100, "fsGroup": 7, "runAsNonRoot": True})
    assert security.user == UnixUser(uid=65534, gid=100, groups=(7,), name="65534")
    assert "needs isolation" in refusal(OFF, pod={"runAsUser": 65534})


def test_the_container_s_field_replaces_the_pod_s():
    assert decide(ROOT, pod={"runAsUser": 7}, container={"runAsUser": 8}).user.uid == 8


def test_fields_that_name_what_the_user_has_anyway():
    fields = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 44, "supplementalGroups": [44]}
    assert decide(ALICE, pod=fields) == ContainerSecurity()


def test_capabilities_are_dropped():
    drop_all = {"capabilities": {"drop": ["ALL"]}}
    assert decide(ROOT, container=drop_all).dropped_capabilities == ALL
    assert decide(ALICE, container=drop_all).no_new_privileges
    assert decide(ROOT, JANE, container=drop_all).user == JANE
    some = decide(ROOT, container={"capabilities": {"drop": ["ALL"], "add": ["CAP_CHOWN"]}})
    assert some.dropped_capabilities == ALL[1:]
    assert "FLY" in refusal(ROOT, container={"capabilities": {"drop": ["FLY"]}})


def test_privileged_containers_are_root_s_only():
    assert decide(ROOT, container={"privileged": True}) == ContainerSecurity(has_pid_namespace=True)
    assert "65534" in refusal(ROOT, container={"privileged": True, "runAsUser": 65534})


def test_no_privilege_escalation():
    assert decide(ALICE, container={"allowPrivilegeEscalation": False}).no_new_privileges


def test_a_read_only_root_needs_isolation():
    read_only = {"readOnlyRootFilesystem": True}
    assert decide(ROOT, JANE, container=read_only).read_only_root
    assert "it needs root" in refusal(ALICE, container=read_only)


def test_host_processes_are_visible_to_root_s_own_pods_on_request():
    assert not decide(ROOT, hostPID=True).has_pid_namespace


def test_the_restricted_profile_of_kubernetes_runs_isolated():
    fields = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert decide(ROOT, JANE, container=fields).user == JANE
