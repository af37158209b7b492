import datetime as dt
import multiprocessing
import os
import ssl
import stat

import pytest

from pykueue.api.errors import ApiError
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.http import service_accounts
from pykueue.apiserver.security import authorizer as module
from pykueue.apiserver.security import certificates, files, kubeconfig, roles, rules, tokens
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


def test_a_user_keeps_a_valid_token_and_else_gets_one_more(tmp_path):
    first = tokens.issue(tmp_path / "tokens", "jane", ("a", "b"))
    other = tokens.issue(tmp_path / "tokens", "joe")
    assert tokens.issue(tmp_path / "tokens", "jane", current=first) == first
    second = tokens.issue(tmp_path / "tokens", "jane", current=other)
    users = tokens.Tokens(tmp_path / "tokens")
    assert second not in (first, other)
    assert users.user(first) == users.user(second)


def test_a_running_server_sees_users_come_and_go(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "_REFRESH_SECONDS", 0)
    users = tokens.Tokens(tmp_path / "tokens")
    assert users.user("") is None
    token = tokens.issue(tmp_path / "tokens", "jane", ("research",))
    (entry,) = tokens.read(tmp_path / "tokens")
    assert users.user(token) == UserInfo(name="jane", uid=entry.uid, groups=JANE.groups)
    tokens.remove(tmp_path / "tokens", "jane")
    assert (users.user(token), users.has_uid(entry.uid)) == (None, False)


def test_the_token_file_has_no_token_in_clear(tmp_path):
    token = tokens.issue(tmp_path / "tokens", "jane")
    assert token not in (tmp_path / "tokens").read_text()


def test_tokens_in_clear_stay_valid_and_are_hashed(tmp_path):
    (tmp_path / "tokens").write_text('secret,jane,uid-1,"a,b"\n# a comment\nother,joe,uid-2\n')
    before = tokens.Tokens(tmp_path / "tokens").user("secret")
    tokens.hash_clear_tokens(tmp_path / "tokens")
    assert (
        tokens.Tokens(tmp_path / "tokens").user("secret")
        == before
        == UserInfo(name="jane", uid="uid-1", groups=("a", "b", "system:authenticated"))
    )
    assert "secret" not in (tmp_path / "tokens").read_text()


async def test_a_server_hashes_tokens_in_clear_when_it_starts(api):
    await api.stop()
    with api.paths.tokens.open("a") as file:
        file.write("secret,jane,uid-1\n")
    await api.start()
    assert "secret" not in api.paths.tokens.read_text()
    assert api._tokens.user("secret").name == "jane"


def test_a_hash_is_not_a_token(tmp_path):
    tokens.issue(tmp_path / "tokens", "jane")
    (entry,) = tokens.read(tmp_path / "tokens")
    users = tokens.Tokens(tmp_path / "tokens")
    assert (users.user(entry.digest), users.user(f"sha256:{entry.digest}")) == (None, None)


def issue_many(path, prefix):
    for number in range(6):
        tokens.issue(path, f"{prefix}-{number}")
        tokens.issue(path, "removed")
        tokens.remove(path, "removed")


def test_concurrent_writers_lose_no_user(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=issue_many, args=(tmp_path / "tokens", f"w{index}")) for index in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)
    assert len(tokens.read(tmp_path / "tokens")) == 24
    assert all(entry.user != "removed" for entry in tokens.read(tmp_path / "tokens"))


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o720])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path, mode):
    directory = tmp_path / "data"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(files.UnsafeDirectoryError, match=f"writable by other users .mode {mode:04o}.*chmod 700"):
        files.private_directory(directory)


def test_a_directory_that_others_can_read_is_closed(tmp_path):
    directory = tmp_path / "data"
    directory.mkdir()
    directory.chmod(0o755)
    files.private_directory(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(files.UnsafeDirectoryError, match="belongs to another user"):
        files.private_directory(tmp_path)


def test_a_directory_that_others_can_replace_is_refused(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(files.UnsafeDirectoryError, match="could be replaced by other users"):
        files.private_directory(shared / "data")
    shared.chmod(0o1777)
    assert files.private_directory(shared / "data").exists()


def test_directories_are_made_closed_under_an_open_umask(tmp_path):
    before = os.umask(0)
    try:
        files.private_directory(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert [(tmp_path / path).stat().st_mode & 0o777 for path in ("a", "a/b", "a/b/c")] == [0o700] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")
def test_a_directory_below_one_of_another_user_is_refused(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chown(shared, 65534, 65534)
    with pytest.raises(files.UnsafeDirectoryError, match="belongs to uid 65534"):
        files.private_directory(shared / "data")


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


IMPERSONATIONS = [
    ({"impersonate-user": ["joe"]}, ("", ["users"], {}), True),
    ({"impersonate-user": ["joe"]}, ("", ["users"], {"resourceNames": ["joe"]}), True),
    ({"impersonate-user": ["root"]}, ("", ["users"], {"resourceNames": ["joe"]}), False),
    ({"impersonate-user": ["joe"], "impersonate-group": ["system:masters"]}, ("", ["users"], {}), False),
    ({"impersonate-user": ["joe"], "impersonate-group": ["dev"]}, ("", ["users", "groups"], {}), True),
    ({"impersonate-user": ["system:serviceaccount:ml:bot"]}, ("", ["users"], {}), False),
    ({"impersonate-user": ["system:serviceaccount:ml:bot"]}, ("", ["serviceaccounts"], {}), True),
    ({"impersonate-user": ["joe"], "impersonate-uid": ["7"]}, ("", ["users"], {}), False),
    ({"impersonate-user": ["joe"], "impersonate-extra-scopes": ["all"]}, ("", ["users"], {}), False),
    ({"impersonate-user": ["system:node:n"], "impersonate-group": ["system:nodes"]}, ("", ["users"], {}), False),
]


@pytest.mark.parametrize(("headers", "rule", "allowed"), IMPERSONATIONS)
def test_every_part_of_an_impersonation_needs_its_right(authorizer, headers, rule, allowed):
    group, resources, names = rule
    role = roles.cluster_role("impersonator", [roles.rule(group, resources, ["impersonate"]) | names])
    authorizer.observe("clusterroles", "ADDED", role)
    bind(authorizer, "impersonator")
    if allowed:
        user = effective_user(JANE, headers, authorizer)
        assert (user.name, "system:masters" in user.groups) == (headers["impersonate-user"][0], False)
    else:
        with pytest.raises(ApiError, match="cannot impersonate"):
            effective_user(JANE, headers, authorizer)


@pytest.mark.parametrize("name", ["system:node:n", "system:kube-scheduler", "system:masters", "pykueue-admin"])
def test_a_name_alone_gives_no_rights(authorizer, name):
    user = UserInfo(name=name, groups=("system:nodes", "system:authenticated"))
    assert not authorizer.allows(user, AccessRequest(verb="list", resource="secrets"))
    assert not authorizer.allows(user, AccessRequest(verb="get", resource="pods", namespace="ml"))


def test_an_administrator_may_impersonate_any_user(authorizer):
    admin = UserInfo(name="admin", groups=("system:masters",))
    headers = {"impersonate-user": ["joe"], "impersonate-group": ["dev"]}
    assert effective_user(admin, headers, authorizer) == UserInfo(name="joe", groups=("dev", "system:authenticated"))


def test_an_invalid_token_of_a_service_account_has_no_user():
    accounts = service_accounts.ServiceAccounts(b"key", lambda *_: None, lambda _: True)
    for token in ("", "a.b.c", "..", "a.b", "\u00fc.b.c", "e30.e30.e30"):
        assert accounts.user(token) is None


def test_a_change_of_a_binding_costs_what_that_binding_has(authorizer, monkeypatch):
    """Whoever administers a namespace may bind thousands of subjects."""
    for number in range(20):
        authorizer.observe("rolebindings", "ADDED", _large_binding(f"b{number}", subjects=100))
    read = []
    subject = module._subject
    monkeypatch.setattr(module, "_subject", lambda *given: read.append(given) or subject(*given))
    authorizer.observe("rolebindings", "MODIFIED", _large_binding("b0", subjects=3))
    authorizer.allows(JANE, AccessRequest(verb="get", resource="pods", namespace="ml"))
    assert len(read) == 103


def _large_binding(name, *, subjects):
    return {
        "metadata": {"name": name, "namespace": "ml"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": f"u{number}"} for number in range(subjects)],
    }


def test_a_changed_binding_gives_and_takes_rights_at_once(authorizer):
    may = AccessRequest(verb="get", resource="pods", namespace="ml")
    users = [UserInfo(name=f"u{number}") for number in range(3)]
    authorizer.observe("rolebindings", "ADDED", _large_binding("b", subjects=3))
    authorizer.observe("rolebindings", "ADDED", _large_binding("c", subjects=1))
    assert [authorizer.allows(user, may) for user in users] == [True, True, True]
    authorizer.observe("rolebindings", "MODIFIED", _large_binding("b", subjects=2))
    assert [authorizer.allows(user, may) for user in users] == [True, True, False]
    authorizer.observe("rolebindings", "DELETED", _large_binding("b", subjects=2))
    assert [authorizer.allows(user, may) for user in users] == [True, False, False]
    authorizer.observe("rolebindings", "DELETED", _large_binding("c", subjects=1))
    assert [authorizer.allows(user, may) for user in users] == [False, False, False]


def test_a_changed_cluster_role_changes_the_rights_in_every_namespace(authorizer):
    may = AccessRequest(verb="get", resource="pods", namespace="ml")
    authorizer.observe("rolebindings", "ADDED", _large_binding("b", subjects=1))
    user = UserInfo(name="u0")
    assert authorizer.allows(user, may)
    authorizer.observe("clusterroles", "MODIFIED", {"metadata": {"name": "view"}, "rules": []})
    assert not authorizer.allows(user, may)
