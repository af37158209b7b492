"""Nobody grants more than they have: the rules of Kubernetes' RBAC registry, as tables."""

import itertools

import pytest
from tests.apiserver.api_requests import GROUP, binding, cluster_role, create, namespace, rule, send, user

from pykueue.apiserver.security import rules

WRITER = user("writer")
GATHER = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"gather": "this"}}]}}
EVERYTHING = [{"matchExpressions": [{"key": "kubernetes.io/bootstrapping", "operator": "Exists"}]}]
PATHS = {"nonResourceURLs": ["*"], "verbs": ["*"]}
ALL = rule("*", "*", "*")
MERGE = "application/merge-patch+json"


def urls(paths, verbs="get"):
    return {"nonResourceURLs": paths.split(), "verbs": verbs.split()}


@pytest.mark.parametrize(
    ("owned", "granted", "missing"),
    [
        ([rule("g", "builds", "get")], [rule("g", "builds", "get")], 0),
        ([rule("g", "*/scale", "get")], [rule("g", "foo/scale", "get")], 0),
        ([rule("g", "*/scale", "get")], [rule("g", "foo", "get")], 1),
        ([rule("g", "foo/*", "get")], [rule("g", "foo/scale", "get")], 1),
        ([rule("g", "a", "delete"), rule("g", "b", "delete update")], [rule("g", "a b", "delete")], 0),
        ([rule("g", "a b", "delete update"), rule("g", "c", "delete")], [rule("g", "a b c", "delete update")], 1),
        ([rule("*", "roles", "get")], [rule("g", "roles", "get"), rule("*", "roles", "get")], 0),
        ([rule("g", "roles", "get")], [rule("*", "roles", "get")], 1),
        ([rule("g", "roles", "*")], [rule("g", "roles", "watch *")], 0),
        ([rule("g", "roles", "get list watch create update delete exec")], [rule("g", "roles", "*")], 1),
        ([rule("g", "*", "get")], [rule("g", "deployments * pods/log", "get")], 0),
        ([rule("g", "roles deployments", "get")], [rule("g", "*", "get")], 1),
        ([rule("g", "pods", "get")], [rule("g", "pods", "get", resourceNames=["a", "b"])], 0),
        ([rule("g", "pods", "get", resourceNames=["a", "b"])], [rule("g", "pods", "get", resourceNames=["a"])], 0),
        ([rule("g", "pods", "get", resourceNames=["a"])], [rule("g", "pods", "get", resourceNames=["a", "b"])], 1),
        ([rule("g", "pods", "get", resourceNames=["a", "b"])], [rule("g", "pods", "get")], 1),
        ([rule("g", "pods", "get", resourceNames=[""])], [rule("g", "pods", "get")], 1),
        ([urls("/apis", "*")], [urls("/apis", "*")], 0),
        ([urls("*", "*")], [urls("/apis /apis/v1 /", "*")], 0),
        ([urls("/apis/*", "*")], [urls("/apis /apis/v1")], 1),
        ([urls("/apis/*", "*")], [urls("/apis/v1/foo /apis/v1 /apis/*")], 0),
        ([urls("/apis", "*")], [urls("*", "*")], 1),
        ([rule("g", "builds", "get")], [urls("/apis")], 1),
        ([ALL], [urls("/metrics")], 1),
    ],
)
def test_rules_cover(owned, granted, missing):
    assert len(rules.uncovered(owned, granted)) == missing


@pytest.fixture
async def as_writer(api):
    """A function that gives the writer rules besides those for roles and bindings, and sends requests."""
    await create(api, namespace("ml"))
    own = rule(GROUP, "clusterroles roles clusterrolebindings rolebindings", "create update patch get list")
    await create(api, cluster_role("writer", own))
    await create(api, binding("writer", "writer"))

    async def give(*extra):
        await send(api, "PUT", f"/apis/{GROUP}/v1/clusterroles/writer", cluster_role("writer", own, *extra))

    return give


NEW_ROLES = [
    ([], cluster_role("new"), True),
    ([], cluster_role("new", rule("", "pods", "get")), False),
    ([rule("", "pods", "get")], cluster_role("new", rule("", "pods", "get")), True),
    ([], cluster_role("new", urls("/metrics")), False),
    ([], cluster_role("new", **GATHER), False),
    ([rule("", "pods", "get")], cluster_role("new", rule("", "pods", "get"), **GATHER), False),
    ([ALL], cluster_role("new", **GATHER), True),
    ([rule("*", "*", "get list")], cluster_role("new", **GATHER), False),
    ([ALL, PATHS], cluster_role("new", **GATHER), True),
    ([rule(GROUP, "clusterroles", "escalate")], cluster_role("new", ALL, **GATHER), True),
    ([rule(GROUP, "clusterroles", "escalate", resourceNames=["new"])], cluster_role("new", ALL), False),
    ([rule(GROUP, "roles", "escalate")], cluster_role("new", ALL), False),
    ([rule(GROUP, "clusterroles", "bind")], cluster_role("new", ALL), False),
]


async def test_a_new_cluster_role(api, as_writer):
    for number, (extra, role, allowed) in enumerate(NEW_ROLES):
        await as_writer(*extra)
        answer = await create(api, {**role, "metadata": {"name": f"new-{number}"}}, by=WRITER)
        assert (number, answer.code) == (number, 201 if allowed else 403)


CHANGES = [
    ([], {"metadata": {"labels": {"a": "b"}}}, True),
    ([], {"rules": [rule("", "secrets", "get")]}, False),
    ([], GATHER, False),
    ([], {"aggregationRule": {"clusterRoleSelectors": EVERYTHING}}, False),
    ([rule(GROUP, "clusterroles", "escalate", resourceNames=["present"])], {"rules": [ALL]}, True),
]


async def test_a_changed_cluster_role(api, as_writer):
    await create(api, cluster_role("present"))
    path = f"/apis/{GROUP}/v1/clusterroles/present"
    for extra, patch, allowed in CHANGES:
        await as_writer(*extra)
        answer = await send(api, "PATCH", path, patch, by=WRITER, content_type=MERGE)
        assert (patch, answer.code) == (patch, 200 if allowed else 403)


async def test_an_aggregated_role_is_changed_by_administrators_and_the_garbage_collector(api, as_writer):
    await create(api, cluster_role("gathering", **GATHER))
    path = f"/apis/{GROUP}/v1/clusterroles/gathering"
    for patch in ({"aggregationRule": None}, {"metadata": {"labels": {"a": "b"}}}):
        answer = await send(api, "PATCH", path, patch, by=WRITER, content_type=MERGE)
        assert answer.message == (
            f'clusterroles.{GROUP} "gathering" is forbidden: must have cluster-admin privileges to use the '
            "aggregationRule"
        )
    for patch in ({"metadata": {"finalizers": ["example.org/x"]}}, {"metadata": {"ownerReferences": []}}):
        assert (await send(api, "PATCH", path, patch, by=WRITER, content_type=MERGE)).code == 200


ACCOUNT = {"kind": "ServiceAccount", "name": "bot", "namespace": "ml"}
TEAM = {"kind": "Group", "name": "system:serviceaccounts:ml", "apiGroup": GROUP}
MASTERS = {"kind": "Group", "name": "system:masters", "apiGroup": GROUP}


async def test_no_subject_is_bound_to_more_than_its_binder_has(api, as_writer):
    await create(api, cluster_role("pods", rule("", "pods", "get")))
    subjects = ("writer", "somebody", ACCOUNT, TEAM, MASTERS)
    for number, (subject, inside) in enumerate(itertools.product(subjects, ("", "ml"))):
        obj = binding("pods", subject, namespace=inside, name=f"b-{number}")
        await as_writer()
        answer = await create(api, obj, by=WRITER)
        assert (subject, answer.code, "not currently held" in answer.message) == (subject, 403, True)
        await as_writer(rule("", "pods", "get"))
        assert (await create(api, obj, by=WRITER)).code == 201
        await send(api, "DELETE", f"{api.scheme.for_object(obj).resource.path(inside)}/b-{number}")


BINDINGS = [
    ([rule(GROUP, "clusterroles", "bind")], "cluster-admin", "", 201),
    ([rule(GROUP, "clusterroles", "bind", resourceNames=["view"])], "view", "ml", 201),
    ([rule(GROUP, "clusterroles", "bind", resourceNames=["view"])], "edit", "ml", 403),
    ([rule(GROUP, "roles", "bind")], "view", "ml", 403),
    ([rule(GROUP, "clusterroles", "escalate")], "view", "ml", 403),
    ([], "absent", "ml", 404),
    ([rule(GROUP, "clusterroles", "bind")], "absent", "ml", 201),
]


async def test_the_right_to_bind(api, as_writer):
    for number, (extra, role, inside, code) in enumerate(BINDINGS):
        await as_writer(*extra)
        answer = await create(api, binding(role, "somebody", namespace=inside, name=f"b-{number}"), by=WRITER)
        assert (number, answer.code) == (number, code)


async def test_rights_of_one_namespace_are_not_granted_in_another(api, as_writer):
    await create(api, namespace("other"))
    await create(api, binding("admin", "writer", namespace="ml"))
    assert (await create(api, binding("admin", "x", namespace="ml", name="x"), by=WRITER)).code == 201
    assert (await create(api, binding("admin", "x", namespace="other"), by=WRITER)).code == 403
    assert (await create(api, binding("admin", "x"), by=WRITER)).code == 403


async def test_the_role_of_a_binding_cannot_be_changed(api, as_writer):
    for inside, kind in (("", "clusterrolebindings"), ("ml", "namespaces/ml/rolebindings")):
        await create(api, binding("view", "x", namespace=inside, name="b"))
        path = f"/apis/{GROUP}/v1/{kind}/b"
        answer = await send(api, "PATCH", path, {"roleRef": {"name": "cluster-admin"}}, content_type=MERGE)
        assert (answer.code, "roleRef: Invalid value" in answer.message) == (422, True)
        assert answer.message.endswith("cannot change roleRef")
        subjects = binding("view", "x", "y")["subjects"]
        assert (await send(api, "PATCH", path, {"subjects": subjects}, content_type=MERGE)).code == 200


INVALID = [
    (cluster_role("r", {"apiGroups": [""], "resources": ["pods"], "verbs": []}), "rules[0].verbs"),
    (cluster_role("r", {"resources": ["pods"], "verbs": ["get"]}), "rules[0].apiGroups"),
    (cluster_role("r", {"apiGroups": [""], "verbs": ["get"]}), "rules[0].resources"),
    (cluster_role("r", rule("", "pods", "get") | urls("/x")), "rules[0].nonResourceURLs"),
    (cluster_role("r", aggregationRule={}), "aggregationRule.clusterRoleSelectors"),
    ({**cluster_role("r", urls("/x")), "kind": "Role", "metadata": {"name": "r", "namespace": "ml"}}, "rules[0]"),
    (binding("r", "x", kind="Role"), "roleRef.kind"),
    (binding("r", "x", kind="Robot", namespace="ml"), "roleRef.kind"),
    (binding("", "x"), "roleRef.name"),
    (binding("r", {"kind": "User", "name": "x", "apiGroup": "v1"}), "subjects[0].apiGroup"),
    (binding("r", {"kind": "Robot", "name": "x"}), "subjects[0].kind"),
    (binding("r", {"kind": "ServiceAccount", "name": "x"}), "subjects[0].namespace"),
    (binding("r", {"kind": "Group", "name": ""}), "subjects[0].name"),
]


async def test_an_invalid_role_or_binding_names_the_field(api):
    await create(api, namespace("ml"))
    for obj, field in INVALID:
        answer = await create(api, obj)
        assert (field, answer.code, field in answer.message) == (field, 422, True)
