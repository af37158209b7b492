"""Whatever is served: what a SelfSubjectAccessReview says is what happens, in the scope of the path.

The paths are built from discovery and the route tables of a complete `pykueue up`, so a resource,
a subresource or a page that is added later is covered without a change here.
"""

import itertools

import pytest
from tests.apiserver.api_requests import GROUP, binding, create, namespace, send, user

from pykueue.api.configuration import loading, shipped
from pykueue.apiserver.calls import ADMIN
from pykueue.apiserver.paths import ServerPaths
from pykueue.app import up
from pykueue.app.kubelet_api import metrics

ADMINISTRATOR = ADMIN
JANE, BOSS, AUDITOR, NOBODY = user("jane"), user("boss"), user("auditor"), user("nobody")
USERS = (JANE, BOSS, AUDITOR, NOBODY)
NAMESPACES = ("", "ml", "other")
CONNECTIONS = {"pods/exec", "pods/attach", "pods/portforward"}
REQUESTS = (
    # method, whether the path has a name, query, verb
    ("GET", False, "", "list"),
    ("GET", False, "?watch=1", "watch"),
    ("POST", False, "", "create"),
    ("DELETE", False, "?labelSelector=no-such-label", "deletecollection"),
    ("PUT", False, "", "update"),
    ("PATCH", False, "", "patch"),
    ("HEAD", False, "", "head"),
    ("GET", True, "", "get"),
    ("PUT", True, "", "update"),
    ("PATCH", True, "", "patch"),
    ("DELETE", True, "", "delete"),
    ("POST", True, "", "create"),
)
COLLECTION, NAMED = ("list", "watch", "create", "deletecollection"), ("get", "update", "patch", "delete")


@pytest.fixture
async def api(tmp_path, monkeypatch):
    """The API of `pykueue up` with everything that it can serve, and users of four kinds."""
    monkeypatch.setattr(metrics, "_WINDOW_SECONDS", 0)
    options = up.UpOptions(
        paths=ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0),
        configuration=loading.complete(shipped.document()),
        runtime="process",
        stops_jobs=True,
    )
    async with up.started(options) as server:
        for name in ("ml", "other"):
            await create(server.api, namespace(name))
        for role, who, where in (
            ("edit", "jane", "ml"),
            ("kueue-batch-user-role", "jane", "ml"),
            ("cluster-admin", "boss", "ml"),
            ("view", "auditor", ""),
        ):
            answer = await create(server.api, binding(role, who, namespace=where, name=f"{role}-{who}"))
            assert answer.code == 201, answer
        yield server.api


def served(api):
    """Every (group, version, plural, subresource, is_namespaced, verbs) of discovery and the route tables."""
    rows = {
        (group, version, *entry.name.partition("/")[::2]): (entry.namespaced, entry.verbs)
        for group, versions in api.application.discovery.groups().items()
        for version, entries in versions.items()
        for entry in entries
    }
    rows["", "v1", "namespaces", "finalize"] = (False, ("get", "patch", "update"))
    for (group, plural, subresource), (resource, _) in api.hooks.subresources.items():
        versions = {key[1] for key in rows if key[0] == group and key[2] == plural}
        for version in versions:
            rows[group, version, plural, subresource] = (resource.namespaced, resource.verbs)
    for (group, version), extra in api.hooks.groups.items():
        for resource in extra.resources:
            rows[group, version, *resource.name.partition("/")[::2]] = (resource.namespaced, resource.verbs)
    return [(*key, *value) for key, value in sorted(rows.items())]


def path_of(group, version, plural, subresource, *, inside, name):
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    parts = [root, *([f"namespaces/{inside}"] if inside else []), plural, name, subresource]
    return "/".join(part for part in parts if part)


def is_on_path(verb, *, has_name, subresource, namespaced, inside):
    """Whether a path of this form can serve the verb at all; None if there is no such path."""
    if inside and not namespaced:
        return None
    if namespaced and not inside and has_name:
        return None
    if subresource:
        return verb in ("create", "get", "update", "patch")
    if namespaced and not inside:
        return verb in ("list", "watch")
    return verb in (NAMED if has_name else COLLECTION)


def cases(api):
    for row in served(api):
        group, version, plural, subresource, namespaced, verbs = row
        for inside, (method, has_name, query, verb) in itertools.product(NAMESPACES, REQUESTS):
            if subresource and not has_name:
                continue
            name = "absent" if has_name else ""
            path = path_of(group, version, plural, subresource, inside=inside, name=name)
            form = {"has_name": has_name, "subresource": subresource, "namespaced": namespaced, "inside": inside}
            fits = is_on_path(verb, **form)
            is_connection = f"{plural}/{subresource}" in CONNECTIONS and not group
            is_namespace = (group, plural) == ("", "namespaces")
            attributes = {
                "verb": "create" if is_connection else verb,
                "group": group,
                "resource": plural,
                "subresource": subresource,
                "namespace": name if is_namespace else inside,
                "name": name,
            }
            expected = 404 if fits is None else 405 if not fits or verb not in verbs else 0
            yield method, path + query, attributes, expected


async def is_allowed(api, who, attributes):
    review = {"spec": {"resourceAttributes": attributes}}
    answer = await send(api, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, by=who)
    return answer.body["status"]["allowed"]


async def test_a_review_says_what_happens_and_a_path_has_the_scope_of_its_resource(api):
    wrong, requests = [], 0
    for method, target, attributes, expected in cases(api):
        for who in (*USERS, ADMINISTRATOR):
            body = {} if method in ("POST", "PUT", "PATCH") else None
            answer = await send(api, method, target, body, by=who)
            requests += 1
            if expected:
                is_right = answer.code == expected
            else:
                is_right = (answer.code != 403) == await is_allowed(api, who, attributes) and answer.code < 500
            if not is_right:
                wrong.append((who.name, method, target, answer.code, answer.message))
    assert wrong == []
    assert requests > 15_000


async def test_an_encoded_slash_makes_no_other_resource(api):
    """`localqueues%2Fpendingworkloads/NAME` is no way around `localqueues/NAME/pendingworkloads`."""
    wrong = []
    for group, version, plural, subresource, namespaced, _ in served(api):
        inside = "ml" if namespaced else ""
        for joined in (f"{plural}%2F{subresource or 'x'}", f"{plural}%2Fabsent"):
            path = path_of(group, version, joined, "", inside=inside, name="absent")
            wrong += [(path, code) for who in USERS if (code := (await send(api, "GET", path, by=who)).code) != 404]
    for path in ("/api/v1/namespaces/ml%2Fpods/x", "/apis//v1/pods", "/api/v1/namespaces//pods"):
        wrong += [(path, code) for who in USERS if (code := (await send(api, "GET", path, by=who)).code) != 404]
    assert wrong == []


async def test_pages_are_read_only_and_need_the_right_to_their_path(api):
    assert "/metrics" in api.hooks.pages
    wrong = []
    for page, method, who in itertools.product(api.hooks.pages, ("GET", "POST", "PUT", "DELETE"), USERS):
        for path in (page, page + "/", "/" + page):
            code = (await send(api, method, path, by=who)).code
            is_open = (method, page) == ("GET", "/history")  # it shows what its reader may list
            if code != (200 if is_open else 403):
                wrong.append((who.name, method, path, code))
    assert wrong == []
    for page, method in itertools.product(api.hooks.pages, ("POST", "PUT", "PATCH", "DELETE")):
        assert (await send(api, method, page, by=ADMINISTRATOR)).code == 405


async def test_a_namespace_is_not_reached_through_another_one(api):
    inner = ("", "/other", "/ml", "/other/status", "/other/finalize")
    for method, path in itertools.product(("GET", "POST", "DELETE", "PATCH"), inner):
        body = namespace("victim") if method != "GET" else None
        answer = await send(api, method, f"/api/v1/namespaces/ml/namespaces{path}", body, by=BOSS)
        assert (method, path, answer.code) == (method, path, 404)
    assert (await send(api, "GET", "/api/v1/namespaces/other")).code == 200


async def test_a_local_review_is_about_its_own_namespace(api):
    path = "/apis/authorization.k8s.io/v1/namespaces/ml/localsubjectaccessreviews"
    about = {"verb": "list", "resource": "pods", "namespace": "other"}
    answer = await send(api, "POST", path, {"spec": {"user": "auditor", "resourceAttributes": about}}, by=BOSS)
    assert (answer.code, answer.message) == (400, "spec.resourceAttributes.namespace must match namespace: ml")
    everywhere = {"verb": "get", "path": "/metrics"}
    answer = await send(api, "POST", path, {"spec": {"user": "auditor", "nonResourceAttributes": everywhere}}, by=BOSS)
    assert answer.code == 400
    spec = {"user": "auditor", "resourceAttributes": {**about, "namespace": "ml"}}
    answer = await send(api, "POST", path, {"spec": spec}, by=BOSS)
    assert answer.body["status"]["allowed"]


async def test_an_applied_configuration_that_creates_needs_the_right_to_create(api):
    role = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "get"]}
    await create(api, {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": "p"}, "rules": [role]})
    await create(api, binding("p", "nobody", namespace="ml"))
    path = "/api/v1/namespaces/ml/configmaps/fresh?fieldManager=test"
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fresh"}}
    content_type = "application/apply-patch+yaml"
    answer = await send(api, "PATCH", path, applied, by=NOBODY, content_type=content_type)
    assert (answer.code, "cannot create resource" in answer.message) == (403, True)
    await send(api, "PATCH", path, applied, content_type=content_type)
    assert (await send(api, "PATCH", path, applied, by=NOBODY, content_type=content_type)).code == 200
