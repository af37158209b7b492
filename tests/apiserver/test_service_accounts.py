"""Tokens of service accounts: for whom, for what, and how long."""

import base64
import time

import pytest
from tests.apiserver.api_requests import GROUP, create, namespace, send, user

from pykueue.api.scheme import Resource
from pykueue.apiserver.http import service_accounts
from pykueue.apiserver.http.service_accounts import ISSUER
from pykueue.apiserver.security import tokens

ACCOUNT = "/api/v1/namespaces/ml/serviceaccounts/bot"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
BOT = "system:serviceaccount:ml:bot"


def core(kind, name, **fields):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ml"}, **fields}


@pytest.fixture
async def api(api):
    await create(api, namespace("ml"))
    await create(api, core("ServiceAccount", "bot"))
    return api


async def request(api, *, by=None, metadata=None, **spec):
    body = {"metadata": metadata or {}, "spec": spec}
    return await send(api, "POST", f"{ACCOUNT}/token", body, **({"by": by} if by else {}))


async def issued(api, **spec):
    return (await request(api, **spec)).body["status"]["token"]


def name_of(api, token):
    account = api.authenticate(token)
    return account.name if account else None


async def reviewed(api, token, *audiences):
    spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    return (await send(api, "POST", REVIEWS, {"spec": spec})).body["status"]


async def test_a_token_is_one_of_its_account(api):
    account = api.authenticate(await issued(api))
    assert (account.name, account.groups) == (
        BOT,
        ("system:serviceaccounts", "system:serviceaccounts:ml", "system:authenticated"),
    )


async def test_a_token_for_others_is_not_valid_here(api):
    token = await issued(api, audiences=["vault.example.com"])
    assert name_of(api, token) is None
    assert name_of(api, await issued(api, audiences=["vault.example.com", ISSUER])) == BOT


async def test_a_review_answers_the_audiences_that_both_have(api):
    token = await issued(api, audiences=["vault.example.com", "other"])
    assert not (await reviewed(api, token))["authenticated"]
    status = await reviewed(api, token, "vault.example.com", "third")
    assert (status["authenticated"], status["audiences"]) == (True, ["vault.example.com"])
    assert not (await reviewed(api, token, "third"))["authenticated"]


async def test_a_user_is_not_one_for_other_audiences(api):
    token = tokens.issue(api.paths.tokens, "jane")
    assert (await reviewed(api, token))["user"]["username"] == "jane"
    assert (await reviewed(api, token, "third", ISSUER))["audiences"] == [ISSUER]
    assert not (await reviewed(api, token, "vault.example.com"))["authenticated"]


@pytest.mark.parametrize("kind", ["Pod", "Secret"])
async def test_a_bound_token_ends_with_its_object(api, kind):
    pod = {"spec": {"serviceAccountName": "bot", "containers": [{"name": "c", "image": "i"}]}}
    obj = core(kind, "bound", **(pod if kind == "Pod" else {}))
    await create(api, obj)
    reference = {"apiVersion": "v1", "kind": kind, "name": "bound"}
    token = await issued(api, boundObjectRef=reference)
    assert name_of(api, token) == BOT
    await send(api, "DELETE", f"/api/v1/namespaces/ml/{kind.lower()}s/bound")
    assert name_of(api, token) is None
    await create(api, obj)
    assert name_of(api, token) is None, "another object of the same name"


async def test_a_bound_token_ends_with_its_node(api):
    await create(api, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    token = await issued(api, boundObjectRef={"apiVersion": "v1", "kind": "Node", "name": "n"})
    assert name_of(api, token) == BOT
    await send(api, "DELETE", "/api/v1/nodes/n")
    assert name_of(api, token) is None


NOT_BINDABLE = [
    ({"kind": "Secret", "name": "ghost"}, 404, "not found"),
    ({"kind": "Pod", "name": "ghost"}, 404, "not found"),
    ({"kind": "ConfigMap", "name": "c"}, 400, "cannot bind token to object of type"),
    ({"kind": "Pod", "apiVersion": "batch/v1", "name": "c"}, 400, "cannot bind token to object of type"),
    ({"kind": "Secret", "name": "secret", "uid": "other"}, 409, "does not match the UID in record"),
    ({"kind": "Pod", "name": "foreign"}, 400, "to pod running with different serviceaccount name."),
]


async def test_a_token_is_bound_to_what_exists(api):
    await create(api, core("Secret", "secret"))
    await create(api, core("Pod", "foreign", spec={"containers": [{"name": "c", "image": "i"}]}))
    for reference, code, message in NOT_BINDABLE:
        answer = await request(api, boundObjectRef=reference)
        assert (reference, answer.code, message in answer.message) == (reference, code, True)


async def test_a_token_ends_with_its_account_and_its_uid(api):
    token = await issued(api)
    await send(api, "DELETE", ACCOUNT)
    assert name_of(api, token) is None
    await create(api, core("ServiceAccount", "bot"))
    assert name_of(api, token) is None


async def test_a_token_ends_with_an_account_that_a_finalizer_keeps(api, monkeypatch):
    await create(api, core("ServiceAccount", "bot2"))
    await api.client().patch(
        Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True),
        "bot",
        "ml",
        {"metadata": {"finalizers": ["example.org/hold"]}},
    )
    token = await issued(api)
    await send(api, "DELETE", ACCOUNT)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 120)
    assert name_of(api, token) is None


async def test_a_token_expires(api, monkeypatch):
    token = await issued(api, expirationSeconds=600)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 601)
    assert name_of(api, token) is None


async def test_a_token_of_another_issuer_is_not_valid(api, monkeypatch):
    """Though its signature is right, as when two clusters were given one key."""
    token = await issued(api)
    assert name_of(api, token) is not None
    monkeypatch.setattr(service_accounts, "ISSUER", "https://elsewhere")
    assert name_of(api, token) is None


async def test_a_lifetime_has_bounds(api):
    for seconds in (10, -1, "x"):
        answer = await request(api, expirationSeconds=seconds)
        assert (answer.code, "may not specify a duration less than 10 minutes" in answer.message) == (422, True)
    answer = await request(api, expirationSeconds=2**33)
    assert (answer.code, "may not specify a duration larger than 2^32 seconds" in answer.message) == (422, True)


async def test_a_long_lifetime_is_shortened_with_a_warning(api):
    answer = await request(api, expirationSeconds=2**31)
    assert answer.body["spec"]["expirationSeconds"] == 366 * 24 * 3600
    assert answer.warnings == (f"requested expiration of {2**31} seconds shortened to {366 * 24 * 3600} seconds",)


async def test_a_request_is_for_the_account_of_its_path(api):
    for metadata, code in (({"name": "other"}, 422), ({"namespace": "other"}, 422), ({"uid": "other"}, 409)):
        assert (await request(api, metadata=metadata)).code == code


async def test_tokens_that_a_removed_user_requested_end_with_the_user(api, monkeypatch):
    monkeypatch.setattr(tokens, "_REFRESH_SECONDS", 0)
    jane = api.authenticate(tokens.issue(api.paths.tokens, "jane", (tokens.MASTERS,)))
    own = await issued(api)
    first = await issued(api, by=jane)
    account = api.authenticate(first)
    second = await issued(api, by=user_with_masters(account))
    assert {name_of(api, token) for token in (own, first, second)} == {BOT}
    tokens.remove(api.paths.tokens, "jane")
    tokens.issue(api.paths.tokens, "jane")
    assert [name_of(api, token) for token in (own, first, second)] == [BOT, None, None]


def user_with_masters(account):
    return type(account)(
        name=account.name, uid=account.uid, groups=(*account.groups, tokens.MASTERS), extra=account.extra
    )


async def test_a_user_outside_the_token_file_requests_tokens_without_an_end(api):
    token = await issued(api, by=user("system:admin", tokens.MASTERS))
    assert name_of(api, token) == BOT


# Secrets with tokens

SECRETS = "/api/v1/namespaces/ml/secrets"


def token_secret(name="", account="bot", **metadata):
    annotations = {"kubernetes.io/service-account.name": account}
    metadata = {"namespace": "ml", "annotations": annotations, **({"name": name} if name else {}), **metadata}
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": metadata}


def decoded(secret, key="token"):
    return base64.b64decode(secret["data"][key]).decode()


@pytest.mark.parametrize("naming", [{"name": "s"}, {"generateName": "s-"}])
async def test_a_token_secret_has_a_token_of_its_account(api, naming):
    secret = (await create(api, token_secret(**naming))).body
    account = (await send(api, "GET", ACCOUNT)).body
    assert name_of(api, decoded(secret)) == BOT
    assert (decoded(secret, "namespace"), decoded(secret, "ca.crt")) == ("ml", api.access.authority.decode())
    assert secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == account["metadata"]["uid"]


async def test_the_token_of_a_secret_does_not_expire(api, monkeypatch):
    token = decoded((await create(api, token_secret("s"))).body)
    later = time.time() + 10 * 366 * 24 * 3600
    monkeypatch.setattr(time, "time", lambda: later)
    assert name_of(api, token) == BOT


async def test_the_token_of_a_secret_ends_with_the_secret(api):
    token = decoded((await create(api, token_secret("s"))).body)
    await send(api, "DELETE", f"{SECRETS}/s")
    assert name_of(api, token) is None
    other = decoded((await create(api, token_secret("s"))).body)
    assert [name_of(api, token) for token in (token, other)] == [None, BOT]


async def test_the_token_of_a_secret_ends_with_the_user_who_made_it(api, monkeypatch):
    monkeypatch.setattr(tokens, "_REFRESH_SECONDS", 0)
    jane = api.authenticate(tokens.issue(api.paths.tokens, "jane", (tokens.MASTERS,)))
    token = decoded((await create(api, token_secret("s"), by=jane)).body)
    assert name_of(api, token) == BOT
    tokens.remove(api.paths.tokens, "jane")
    assert name_of(api, token) is None


async def test_a_token_that_is_removed_from_its_secret_is_written_again(api):
    secret = (await create(api, token_secret("s"))).body
    changed = await send(api, "PUT", f"{SECRETS}/s", {**secret, "data": {"more": "YQ=="}})
    assert (name_of(api, decoded(changed.body)), decoded(changed.body, "more")) == (BOT, "a")


async def test_only_who_may_get_a_secret_gets_the_token_in_it(api):
    """A user with the permission to create Secrets, but not to get them, sees no token."""
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]
    role = {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "ml"}, "rules": rules}
    reference = {"apiGroup": GROUP, "kind": "Role", "name": "r"}
    subjects = [{"apiGroup": GROUP, "kind": "User", "name": "jane"}]
    binding = role | {"kind": "RoleBinding", "roleRef": reference, "subjects": subjects}
    binding.pop("rules")
    for obj in (role, binding):
        assert (await create(api, obj)).code == 201
    answer = await create(api, token_secret("s"), by=user("jane"))
    assert (answer.code, answer.body.get("data"), len(answer.warnings)) == (201, None, 1)
