import datetime as dt
import json
import ssl
import stat
import time

import pytest

from pykueue.api.errors import ApiError
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.http import service_accounts
from pykueue.apiserver.http.messages import HttpRequest
from pykueue.apiserver.http.routes import Route
from pykueue.apiserver.security import certificates, kubeconfig, roles, rules, tokens
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.security.impersonation import effective_user
from pykueue.kube.delegation import AccessRequest

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
JANE = UserInfo(name="jane", groups=("research", "system:authenticated"))


@pytest.fixture
def authorizer():
    authorizer = Authorizer()
    for obj in roles.defaults():
        authorizer.observe(f"{obj['kind'].lower()}s", "ADDED", obj)
    return authorizer


def bind(authorizer, role, *, namespace="", subject=None):
    kind = "rolebindings" if namespace else "clusterrolebindings"
    binding = {
        "metadata": {"name": f"{role}-binding", "namespace": namespace},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [subject or {"kind": "User", "name": "jane"}],
    }
    authorizer.observe(kind, "ADDED", binding)


def test_certificates_are_made_once_and_kept(tmp_path):
    first = certificates.ensure(tmp_path / "pki", ("example.org",), NOW)
    content = first.serving.read_bytes()
    assert certificates.ensure(tmp_path / "pki", ("example.org",), NOW).serving.read_bytes() == content


@pytest.mark.parametrize(("hosts", "days"), [(("other.org",), 0), (("example.org",), 340)])
def test_a_certificate_for_other_hosts_or_near_its_end_is_renewed(tmp_path, hosts, days):
    content = certificates.ensure(tmp_path, ("example.org",), NOW).serving.read_bytes()
    assert certificates.ensure(tmp_path, hosts, NOW + dt.timedelta(days=days)).serving.read_bytes() != content


def test_private_files_are_for_their_owner_only(tmp_path):
    pki = certificates.ensure(tmp_path / "pki", (), NOW)
    assert {stat.S_IMODE(path.stat().st_mode) for path in pki.directory.iterdir()} == {0o600}


def test_the_serving_certificate_can_be_loaded(tmp_path):
    pki = certificates.ensure(tmp_path, (), NOW)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pki.serving, pki.serving_key)


def test_a_kubeconfig_reads_back(tmp_path):
    credentials = kubeconfig.ClusterCredentials(
        server="https://[::1]:1", authority=b"pem", user="jane", token="t", namespace="ml"
    )
    kubeconfig.write(tmp_path / "config", credentials)
    assert kubeconfig.read(tmp_path / "config") == credentials


def test_a_user_keeps_the_token(tmp_path):
    first = tokens.ensure(tmp_path / "tokens", "jane", ("a", "b"))
    tokens.ensure(tmp_path / "tokens", "joe")
    assert tokens.ensure(tmp_path / "tokens", "jane") == first


def test_a_running_server_sees_users_come_and_go(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "_REFRESH_SECONDS", 0)
    users = tokens.Tokens(tmp_path / "tokens")
    assert users.user("") is None
    entry = tokens.ensure(tmp_path / "tokens", "jane", ("research",))
    assert users.user(entry.token) == UserInfo(name="jane", uid=entry.uid, groups=JANE.groups)
    tokens.remove(tmp_path / "tokens", "jane")
    assert users.user(entry.token) is None


def test_a_broken_token_file_names_the_line(tmp_path):
    (tmp_path / "tokens").write_text("a,b,c\nd\n")
    with pytest.raises(tokens.TokenFileError, match="tokens:2"):
        tokens.read(tmp_path / "tokens")


@pytest.mark.parametrize(
    ("rule", "access", "allowed"),
    [
        (roles.rule("", ["pods"], ["get"]), AccessRequest(verb="get", resource="pods"), True),
        (roles.rule("", ["pods"], ["get"]), AccessRequest(verb="list", resource="pods"), False),
        (roles.rule("", ["pods"], ["*"]), AccessRequest(verb="list", resource="pods", subresource="log"), False),
        (roles.rule("", ["pods/log"], ["get"]), AccessRequest(verb="get", resource="pods", subresource="log"), True),
        (roles.rule("", ["*/scale"], ["get"]), AccessRequest(verb="get", resource="things", subresource="scale"), True),
        (roles.rule("*", ["*"], ["*"]), AccessRequest(verb="get", group="a", resource="b", subresource="c"), True),
        (roles.rule("batch", ["jobs"], ["get"]), AccessRequest(verb="get", resource="jobs"), False),
        (
            roles.rule("", ["pods"], ["get"]) | {"resourceNames": ["a"]},
            AccessRequest(verb="get", resource="pods", name="a"),
            True,
        ),
        (
            roles.rule("", ["pods"], ["get"]) | {"resourceNames": ["a"]},
            AccessRequest(verb="get", resource="pods", name="b"),
            False,
        ),
        ({"nonResourceURLs": ["/api/*"], "verbs": ["get"]}, AccessRequest(verb="get", path="/api/v1"), True),
        ({"nonResourceURLs": ["/api"], "verbs": ["get"]}, AccessRequest(verb="get", path="/apis"), False),
    ],
)
def test_a_rule_allows(rule, access, allowed):
    assert rules.allow([rule], access) is allowed


def test_a_role_binding_holds_in_its_namespace_only(authorizer):
    bind(authorizer, "edit", namespace="ml")
    requests = [
        AccessRequest(verb="create", group="batch", resource="jobs", namespace=namespace)
        for namespace in ("ml", "other", "")
    ]
    assert [authorizer.allows(JANE, access) for access in requests] == [True, False, False]


def test_an_editor_does_not_hand_out_rights(authorizer):
    bind(authorizer, "edit", namespace="ml")
    assert not authorizer.allows(
        JANE, AccessRequest(verb="create", group=roles.GROUP, resource="rolebindings", namespace="ml")
    )


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ({"kind": "Group", "name": "research"}, JANE),
        ({"kind": "ServiceAccount", "name": "bot", "namespace": "ml"}, UserInfo(name="system:serviceaccount:ml:bot")),
    ],
)
def test_groups_and_service_accounts_are_subjects(authorizer, subject, user):
    bind(authorizer, "view", subject=subject)
    assert authorizer.allows(user, AccessRequest(verb="list", resource="pods", namespace="any"))


def test_masters_may_do_everything():
    assert Authorizer().allows(UserInfo(name="root", groups=("system:masters",)), AccessRequest(verb="x", path="/y"))


def test_rights_end_with_their_binding(authorizer):
    bind(authorizer, "view")
    access = AccessRequest(verb="list", resource="pods")
    assert authorizer.allows(JANE, access)
    authorizer.observe("clusterrolebindings", "DELETED", {"metadata": {"name": "view-binding"}})
    assert not authorizer.allows(JANE, access)


def test_a_batch_user_submits_jobs_and_sees_queues_but_makes_none(authorizer):
    bind(authorizer, "kueue-batch-user-role", namespace="ml")
    requests = [
        AccessRequest(verb="create", group="batch", resource="jobs", namespace="ml"),
        AccessRequest(verb="list", group="kueue.x-k8s.io", resource="localqueues", namespace="ml"),
        AccessRequest(verb="create", group="kueue.x-k8s.io", resource="localqueues", namespace="ml"),
    ]
    assert [authorizer.allows(JANE, access) for access in requests] == [True, True, False]


def test_a_refusal_is_worded_as_kubernetes_does():
    access = AccessRequest(verb="list", group="batch", resource="jobs", namespace="ml")
    assert (
        access.refusal("jane") == 'User "jane" cannot list resource "jobs" in API group "batch" in the namespace "ml"'
    )


def test_a_user_can_grant_only_own_permissions():
    owned = [roles.rule("", ["pods"], ["get", "list"])]
    granted = [roles.rule("", ["pods"], ["get", "delete"])]
    assert [access.verb for access in rules.uncovered(owned, granted)] == ["delete"]


def test_impersonation_needs_the_right(authorizer):
    with pytest.raises(ApiError) as refused:
        effective_user(JANE, {"impersonate-user": ["joe"]}, authorizer)
    assert refused.value.message == (
        'users "joe" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope'
    )


def test_an_administrator_may_impersonate_any_user(authorizer):
    admin = UserInfo(name="admin", groups=("system:masters",))
    headers = {"impersonate-user": ["joe"], "impersonate-group": ["dev"]}
    assert effective_user(admin, headers, authorizer) == UserInfo(name="joe", groups=("dev", "system:authenticated"))


def token_request(**spec):
    route = Route(verb="create", path="", version="v1", plural="serviceaccounts", namespace="ml", name="bot")
    return HttpRequest(method="POST", route=route, user=JANE, data=json.dumps({"spec": spec}).encode())


def accounts(uid="uid-1", key=b"key"):
    return service_accounts.ServiceAccounts(
        key, lambda namespace, name: uid if (namespace, name) == ("ml", "bot") else ""
    )


async def issued(service_accounts, **spec):
    return (await service_accounts.request(token_request(**spec))).body["status"]["token"]


async def test_a_service_account_is_known_by_its_token():
    user = accounts().user(await issued(accounts()))
    assert (user.name, user.groups[1]) == ("system:serviceaccount:ml:bot", "system:serviceaccounts:ml")


async def test_a_token_of_another_cluster_is_invalid():
    assert accounts(key=b"other").user(await issued(accounts())) is None


async def test_a_token_ends_with_its_account():
    assert accounts(uid="uid-2").user(await issued(accounts())) is None


async def test_a_token_expires(monkeypatch):
    token = await issued(accounts(), expirationSeconds=600)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 601)
    assert accounts().user(token) is None


async def test_a_token_lives_ten_minutes_at_least():
    with pytest.raises(ApiError, match="may not specify a duration less than 10 minutes"):
        await issued(accounts(), expirationSeconds=10)


@pytest.mark.parametrize("token", ["", "a.b.c", "..", "a.b", "\u00fc.b.c", "e30.e30.e30"])
def test_an_invalid_token_has_no_user(token):
    assert accounts().user(token) is None
