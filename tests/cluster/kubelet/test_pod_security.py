"""Whose pods run as the server's user, and whose as a user of their namespace."""

import itertools
import pwd

import pytest

from pykueue.api import resources
from pykueue.cluster.kubelet import pod_security
from pykueue.cluster.kubelet.environment import MissingSourceError
from pykueue.cluster.kubelet.pod_security import PodSecurity
from pykueue.cluster.runtimes import unix_users
from pykueue.cluster.runtimes.isolation import Isolation
from pykueue.cluster.runtimes.sandbox import UnixUser
from pykueue.cluster.runtimes.unix_users import AccountError, NamespaceUsers
from pykueue.kube.controller.cache import ObjectCache

ROOT = UnixUser(uid=0, gid=0, name="root")
CONTAINER = {"name": "main"}
WRITER = {"kind": "ClusterRole", "metadata": {"name": "edit"}, "rules": [{"verbs": ["create"]}]}
READER = {"kind": "ClusterRole", "metadata": {"name": "view"}, "rules": [{"verbs": ["get", "list"]}]}
USER, GROUP = {"kind": "User", "name": "jane"}, {"kind": "Group", "name": "system:authenticated"}
MASTERS = {"kind": "Group", "name": "system:masters"}


def account(namespace):
    return {"kind": "ServiceAccount", "name": "runner", "namespace": namespace}


class Cluster:
    def __init__(self, directory, **fields):
        self.cache = ObjectCache()
        self._versions = itertools.count(1)
        self.security = PodSecurity(self.cache, Isolation(server=ROOT, first_uid=5000, **fields), directory)
        for name in ("default", "ml", "other"):
            self.add_namespace(name)
        for role in (WRITER, READER):
            self.cache.observe(pod_security._CLUSTER_ROLE, role)

    def add_namespace(self, name, uid="", annotations=None):
        metadata = {"name": name, "uid": uid or f"uid-of-{name}", "annotations": annotations or {}}
        self.cache.observe(resources.NAMESPACE, {"kind": "Namespace", "metadata": metadata})

    def bind(self, namespace, role, *subjects, labels=None):
        """A role binding; a cluster role binding without a namespace."""
        version = str(next(self._versions))
        metadata = {"name": "b", "labels": labels or {}, "resourceVersion": version}
        metadata |= {"namespace": namespace} if namespace else {}
        resource = pod_security._ROLE_BINDING if namespace else pod_security._CLUSTER_ROLE_BINDING
        reference = {"kind": "ClusterRole", "name": role}
        self.cache.observe(resource, {"metadata": metadata, "roleRef": reference, "subjects": list(subjects)})

    def unbind(self, namespace):
        resource = pod_security._ROLE_BINDING if namespace else pod_security._CLUSTER_ROLE_BINDING
        self.cache.forget(resource, self.cache.get(resource, "b", namespace))

    def uid(self, namespace):
        pod = {"metadata": {"namespace": namespace, "name": "p"}, "spec": {"containers": [CONTAINER]}}
        user = self.security.security_of(pod, CONTAINER).user
        return 0 if user is None else user.uid


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


def test_namespaces_of_the_administrator_run_as_the_server(cluster):
    cluster.bind("ml", "edit", MASTERS)
    assert (cluster.uid("default"), cluster.uid("ml")) == (0, 0)


@pytest.mark.parametrize("subject", [USER, GROUP])
def test_a_namespace_that_others_may_write_to_has_its_own_user(cluster, subject):
    cluster.bind("ml", "edit", subject)
    assert (cluster.uid("ml"), cluster.uid("default")) == (5000, 0)


def test_two_namespaces_have_two_users(cluster):
    cluster.bind("ml", "edit", USER)
    cluster.bind("other", "edit", USER)
    assert {cluster.uid("ml"), cluster.uid("other")} == {5000, 5001}


def test_readers_share_nothing(cluster):
    cluster.bind("ml", "view", USER)
    cluster.bind("", "view", GROUP)
    assert cluster.uid("ml") == 0


def test_a_role_that_does_not_exist_yet_may_write(cluster):
    cluster.bind("ml", "absent", USER)
    assert cluster.uid("ml") == 5000


def test_rights_everywhere_isolate_every_namespace(cluster):
    cluster.bind("", "edit", USER)
    assert cluster.uid("default") == 5000


def test_bindings_of_the_system_do_not_count(cluster):
    cluster.bind("", "edit", GROUP, labels={"kubernetes.io/bootstrapping": "rbac-defaults"})
    assert cluster.uid("default") == 0


def test_service_accounts_of_a_shared_namespace_are_others(cluster):
    cluster.bind("other", "edit", account("ml"))
    assert cluster.uid("other") == 0
    cluster.bind("ml", "edit", USER)
    assert cluster.uid("other") != 0


def test_a_service_account_with_rights_everywhere(cluster):
    cluster.bind("", "edit", account("ml"))
    assert cluster.uid("default") == 0
    cluster.bind("ml", "edit", USER)
    assert cluster.uid("default") != 0


def test_what_others_wrote_keeps_its_user_when_they_may_write_no_more(cluster):
    for namespace in ("ml", "other"):
        cluster.bind(namespace, "edit", USER)
    cluster.unbind("ml")
    cluster.bind("other", "view", USER)
    assert (cluster.uid("ml"), cluster.uid("other"), cluster.uid("default")) == (5000, 5001, 0)


def test_a_role_that_loses_its_verbs_leaves_the_user(cluster):
    cluster.bind("ml", "edit", USER)
    reduced = WRITER | {"metadata": {"name": "edit", "resourceVersion": "2"}, "rules": READER["rules"]}
    cluster.cache.observe(pod_security._CLUSTER_ROLE, reduced)
    assert cluster.uid("ml") == 5000


def test_rights_everywhere_leave_users_everywhere(cluster):
    cluster.bind("", "edit", USER)
    cluster.unbind("")
    assert {cluster.uid(name) for name in ("default", "ml", "other")} == {5000, 5001, 5002}


def test_accounts_of_a_namespace_that_was_shared_are_still_others(cluster):
    cluster.bind("ml", "edit", USER)
    cluster.bind("other", "edit", account("ml"))
    cluster.unbind("ml")
    assert cluster.uid("other") != 0
    cluster.unbind("other")
    assert cluster.uid("other") != 0


def test_accounts_of_the_administrator_leave_nothing(cluster):
    cluster.bind("other", "edit", account("default"))
    cluster.unbind("other")
    assert cluster.uid("other") == 0


def test_users_stay_after_a_restart_and_are_never_reused(tmp_path):
    users = NamespaceUsers(tmp_path / "users", 5000)
    first = [users.user_of(uid, uid).uid for uid in ("a", "b")]
    again = NamespaceUsers(tmp_path / "users", 5000)
    assert [again.user_of(uid, uid).uid for uid in ("c", "a", "b")] == [5002, *first]
    assert NamespaceUsers(tmp_path / "users", 9000).user_of("d", "d").uid == 9000


def test_a_namespace_that_is_created_again_is_another_one(cluster):
    cluster.bind("ml", "edit", USER)
    before = cluster.uid("ml")
    cluster.add_namespace("ml", uid="new")
    assert cluster.uid("ml") != before


def test_an_account_for_one_namespace(tmp_path):
    cluster = Cluster(tmp_path, accounts={"ml": UnixUser(uid=1001, gid=1001, name="jane"), "other": ROOT})
    cluster.bind("other", "edit", USER)
    assert (cluster.uid("ml"), cluster.uid("other"), cluster.uid("default")) == (1001, 0, 0)


def test_accounts_of_this_machine():
    nobody = pwd.getpwnam("nobody")
    assert unix_users.account("nobody").uid == unix_users.account(str(nobody.pw_uid)).uid == nobody.pw_uid
    with pytest.raises(AccountError, match="no Unix user 'no-such-user'"):
        unix_users.account("no-such-user")


def test_one_account_for_all(tmp_path):
    cluster = Cluster(tmp_path, run_as=UnixUser(uid=77, gid=77, name="jobs"))
    assert (cluster.uid("default"), cluster.uid("ml")) == (77, 77)


def test_without_isolation_everybody_is_the_server(tmp_path):
    cluster = Cluster(tmp_path, is_enabled=False)
    cluster.bind("ml", "edit", USER)
    assert cluster.uid("ml") == 0


def test_a_shared_namespace_does_not_run_as_root_where_isolation_is_impossible(tmp_path):
    cluster = Cluster(tmp_path, obstacle="this kernel refuses it")
    cluster.bind("ml", "edit", USER)
    assert cluster.uid("default") == 0
    with pytest.raises(MissingSourceError, match="--no-isolation"):
        cluster.uid("ml")
