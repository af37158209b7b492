"""Policies that people rely on: ResourceQuota, LimitRange, Pod Security, and warnings of what has no effect."""

import asyncio
import random

import pytest
from tests.apiserver.api_requests import create, namespace, send
from tests.cluster.waiting import eventually

from pykueue.apiserver.plugins import pod_security, pod_security_checks
from pykueue.apiserver.plugins.resource_quota import QuotaUsage, ResourceQuotas
from pykueue.apiserver.store.rows import StoreKey

MERGE = "application/merge-patch+json"
PODS = "/api/v1/namespaces/ml/pods"


def core(kind, name, **fields):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ml"}, **fields}


def pod(name, *, requests=None, limits=None, **spec):
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return core("Pod", name, spec={"containers": [{"name": "c", "image": "i", "resources": resources}], **spec})


def quota(name="q", *, hard, **spec):
    return core("ResourceQuota", name, spec={"hard": hard, **spec})


@pytest.fixture
async def api(api):
    await create(api, namespace("ml"))
    return api


def status_of(api):
    stored = api.core.store.get(StoreKey("", "resourcequotas", "ml", "q"))
    return stored.decode()["status"]


async def eventually_used(api, expected):
    await eventually(lambda: status_of(api).get("used") == expected)


async def test_a_quota_of_no_pods(api):
    await create(api, quota(hard={"pods": "0"}))
    answer = await create(api, pod("p"))
    assert (answer.code, answer.message) == (
        403,
        'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0',
    )


async def test_requests_and_limits_are_added_up(api):
    await create(api, quota(hard={"requests.cpu": "1", "limits.memory": "2Gi", "pods": "9"}))
    amounts = {"requests": {"cpu": "600m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    assert (await create(api, pod("first", **amounts))).code == 201
    answer = await create(api, pod("second", **amounts))
    assert answer.message == (
        'pods "second" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, '
        "limited: requests.cpu=1"
    )
    amounts["requests"]["cpu"] = "400m"
    assert (await create(api, pod("third", **amounts))).code == 201
    await eventually_used(api, {"requests.cpu": "1", "limits.memory": "2Gi", "pods": "2"})


async def test_requests_at_the_same_time_do_not_share_a_quota(api):
    await create(api, quota(hard={"pods": "3"}))
    answers = await asyncio.gather(*(create(api, pod(f"p{number}")) for number in range(10)))
    assert sorted(answer.code for answer in answers) == [201] * 3 + [403] * 7


async def test_a_pod_that_ended_or_went_frees_its_quota(api):
    await create(api, quota(hard={"pods": "1", "count/pods": "2"}))
    await create(api, pod("ended"))
    assert (await create(api, pod("next"))).code == 403
    await send(api, "PATCH", f"{PODS}/ended/status", {"status": {"phase": "Failed"}}, content_type=MERGE)
    assert (await create(api, pod("next"))).code == 201
    await eventually_used(api, {"pods": "1", "count/pods": "2"})
    await send(api, "DELETE", f"{PODS}/next")
    await eventually_used(api, {"pods": "0", "count/pods": "1"})
    assert (await create(api, pod("last"))).code == 201


async def test_a_dry_run_uses_nothing_and_is_checked(api):
    await create(api, quota(hard={"pods": "1"}))
    assert (await send(api, "POST", f"{PODS}?dryRun=All", pod("p"))).code == 201
    assert (await create(api, pod("p"))).code == 201
    assert (await send(api, "POST", f"{PODS}?dryRun=All", pod("p2"))).code == 403


async def test_a_quota_of_cpu_needs_pods_that_say_their_requests(api):
    await create(api, quota(hard={"requests.cpu": "1", "limits.memory": "1Gi"}))
    answer = await create(api, pod("p"))
    assert answer.message == (
        'pods "p" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c'
    )


async def test_a_limit_range_sets_what_a_quota_needs(api):
    await create(api, quota(hard={"requests.cpu": "1"}))
    limits = [{"type": "Container", "defaultRequest": {"cpu": "700m"}}]
    await create(api, core("LimitRange", "l", spec={"limits": limits}))
    assert (await create(api, pod("p"))).code == 201
    assert "used: requests.cpu=700m" in (await create(api, pod("p2"))).message


async def test_extended_resources_and_objects_are_counted(api):
    await create(api, quota(hard={"requests.nvidia.com/gpu": "1", "count/jobs.batch": "1", "configmaps": "3"}))
    gpu = {"nvidia.com/gpu": "1"}
    assert (await create(api, pod("p", requests=gpu, limits=gpu))).code == 201
    assert "requests.nvidia.com/gpu=1" in (await create(api, pod("p2", requests=gpu, limits=gpu))).message
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {**core("Job", "j", spec={"template": template}), "apiVersion": "batch/v1"}
    assert (await create(api, job)).code == 201
    answer = await create(api, {**job, "metadata": {"name": "j2", "namespace": "ml"}})
    assert answer.message == (
        'jobs.batch "j2" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=1, '
        "limited: count/jobs.batch=1"
    )
    codes = [(await create(api, core("ConfigMap", f"c{number}"))).code for number in range(4)]
    assert codes in ([201, 201, 403, 403], [201, 201, 201, 403]), "the namespace has one of its own, soon"


SCOPES = [
    ({"scopes": ["BestEffort"]}, {}, {"requests": {"cpu": "1"}}),
    ({"scopes": ["NotBestEffort"]}, {"requests": {"cpu": "1"}}, {}),
    ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, {}),
    ({"scopes": ["NotTerminating"]}, {}, {"activeDeadlineSeconds": 5}),
    (
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
        {"priorityClassName": "high"},
        {},
    ),
    (
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}},
        {"priorityClassName": "high"},
        {"priorityClassName": "low"},
    ),
    (
        {
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}]
            }
        },
        {"priorityClassName": "low"},
        {"priorityClassName": "high"},
    ),
    ({"scopes": ["CrossNamespacePodAffinity"]}, {"affinity": "other"}, {"affinity": "own"}),
]


async def test_a_scoped_quota_counts_the_pods_of_its_scope(api):
    for name in ("high", "low"):
        metadata = {"name": name}
        await create(
            api, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 1}
        )
    for number, (scope, inside, outside) in enumerate(SCOPES):
        await create(api, quota(hard={"pods": "0"}, **scope))
        assert (await create(api, pod(f"outside-{number}", **with_affinity(outside)))).code == 201
        answer = await create(api, pod("inside", **with_affinity(inside)))
        assert (number, answer.code, "exceeded quota: q" in answer.message) == (number, 403, True)
        await send(api, "DELETE", "/api/v1/namespaces/ml/resourcequotas/q")


def with_affinity(spec):
    if "affinity" not in spec:
        return spec
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    if spec["affinity"] == "other":
        term["namespaces"] = ["default"]
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


async def test_a_pod_does_not_leave_its_scope_by_an_update(api):
    await create(api, quota(hard={"pods": "0"}, scopes=["Terminating"]))
    await create(api, pod("p"))
    answer = await send(api, "PATCH", f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 9}}, content_type=MERGE)
    assert (answer.code, "exceeded quota: q" in answer.message) == (403, True)


async def test_every_quota_of_the_namespace_holds(api):
    await create(api, quota("wide", hard={"pods": "9"}))
    await create(api, quota("narrow", hard={"pods": "0"}))
    assert "exceeded quota: narrow" in (await create(api, pod("p"))).message
    await create(api, namespace("other"))
    elsewhere = {**pod("p"), "metadata": {"name": "p", "namespace": "other"}}
    assert (await create(api, elsewhere)).code == 201


async def test_a_changed_quota_shows_its_new_limits(api):
    await create(api, quota(hard={"pods": "1", "secrets": "5"}))
    await eventually_used(api, {"pods": "0", "secrets": "0"})
    path = "/api/v1/namespaces/ml/resourcequotas/q"
    await send(api, "PATCH", path, {"spec": {"hard": {"secrets": None, "services": "2"}}}, content_type=MERGE)
    await eventually_used(api, {"pods": "0", "services": "0"})
    assert status_of(api)["hard"] == {"pods": "1", "services": "2"}


async def test_a_new_quota_of_many_objects_counts_them_all(api):
    for number in range(300):
        await create(api, core("ConfigMap", f"c{number}"))
    await create(api, quota(hard={"count/configmaps": "302"}))
    codes = [(await create(api, core("ConfigMap", f"next{number}"))).code for number in range(4)]
    assert codes.count(403) in (2, 3)  # there may be a ConfigMap of the namespace itself
    incremental = next(plugin for plugin in api.core.context.plugins if isinstance(plugin, ResourceQuotas))._usage
    await send(api, "DELETE", "/api/v1/namespaces/ml/resourcequotas/q")
    await create(api, quota("other", hard={"pods": "1"}))
    await create(api, pod("p"))
    assert {kind for (_, kind), _ in incremental._usages} == {"pods"}


@pytest.mark.parametrize("seed", range(3))
async def test_the_usage_that_is_kept_is_the_usage_that_is_counted(api, seed):
    """Random writes, several at a time: the usage equals that of a fresh count."""
    chance = random.Random(seed)
    hard = {"pods": "6", "requests.cpu": "3", "count/pods": "9"}
    await create(api, quota("all", hard=hard))
    await create(api, quota("short", hard={"pods": "3"}, scopes=["Terminating"]))
    incremental = next(plugin for plugin in api.core.context.plugins if isinstance(plugin, ResourceQuotas))._usage

    async def write():
        name = f"p{chance.randrange(12)}"
        match chance.randrange(4):
            case 0:
                await send(api, "DELETE", f"{PODS}/{name}")
            case 1:
                body = {"status": {"phase": chance.choice(["Succeeded", "Running"])}}
                await send(api, "PATCH", f"{PODS}/{name}/status", body, content_type=MERGE)
            case _:
                deadline = {"activeDeadlineSeconds": 5} if chance.random() < 0.5 else {}
                requests = {"cpu": f"{chance.randrange(1, 9)}00m"}
                dry = "?dryRun=All" if chance.random() < 0.2 else ""
                await send(api, "POST", PODS + dry, pod(name, requests=requests, **deadline))

    for _ in range(40):
        await asyncio.gather(*(write() for _ in range(chance.randrange(1, 5))))
        fresh = QuotaUsage(api.core.store, api.core.context.clock)
        for document in incremental.quotas("ml"):
            counted = positive(fresh.of_quota(document))
            assert positive(incremental.of_quota(document)) == counted
        api.core.store.listeners.remove(fresh._on_changes)
    assert any(incremental.of_quota(document) for document in incremental.quotas("ml"))


def positive(usage):
    return {name: value.nano for name, value in usage.items() if value.nano}


INVALID_QUOTAS = [
    ({"hard": {"pods": "-1"}}, "spec.hard[pods]"),
    ({"hard": {"pods": "1500m"}}, "spec.hard[pods]"),
    ({"hard": {"podz": "1"}}, "spec.hard[podz]"),
    ({"hard": {"pods": "1"}, "scopes": ["Sometimes"]}, "spec.scopes"),
    ({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}, "spec.scopes"),
    ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}, "spec.scopes"),
    (
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
        "spec.scopeSelector.matchExpressions.values",
    ),
]


async def test_an_invalid_quota_names_the_field(api):
    for spec, field in INVALID_QUOTAS:
        answer = await create(api, core("ResourceQuota", "q", spec=spec))
        assert (field, answer.code, field in answer.message) == (field, 422, True)


async def test_a_limit_range_bounds_the_ratio(api):
    limits = [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]
    await create(api, core("LimitRange", "l", spec={"limits": limits}))
    answer = await create(api, pod("p", requests={"cpu": "1"}, limits={"cpu": "3"}))
    assert answer.message == (
        'pods "p" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000'
    )
    assert (await create(api, pod("p", requests={"cpu": "1"}, limits={"cpu": "2"}))).code == 201


RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def secured(context=None, **fields):
    """A pod that every level allows, with changes."""
    container = {"name": "c", "image": "i", "securityContext": {**RESTRICTED, **(context or {})}}
    for name in ("ports", "livenessProbe"):
        if name in fields:
            container[name] = fields.pop(name)
    annotations = fields.pop("annotations", {})
    metadata = {"name": "p", "namespace": "ml", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **fields}}


BASELINE_CASES = [
    (secured({"privileged": True, "allowPrivilegeEscalation": True}), "privileged"),
    (secured({"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}), "capabilities"),
    (secured(hostNetwork=True), "host namespaces (hostNetwork=true)"),
    (secured(hostPID=True, hostIPC=True), "host namespaces (hostPID=true, hostIPC=true)"),
    (secured(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), "volume"),
    (secured(ports=[{"containerPort": 80, "hostPort": 8080}]), 'hostPort (container "c" uses hostPort 8080)'),
    (secured(livenessProbe={"httpGet": {"port": 1, "host": "10.0.0.1"}}), "probe or lifecycle host"),
    (secured({"procMount": "Unmasked"}), 'procMount (container "c" must not set securityContext.procMount'),
    (secured({"seLinuxOptions": {"type": "spc_t", "user": "u"}}), 'type "spc_t"; user may not be set'),
    (secured({"seccompProfile": {"type": "Unconfined"}}), 'seccompProfile.type to "Unconfined"'),
    (secured({"appArmorProfile": {"type": "Unconfined"}}), "forbidden AppArmor profile"),
    (
        secured(annotations={"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}),
        "forbidden AppArmor profile (annotation must not set",
    ),
    (secured(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}), "kernel.msgmax"),
    (secured(securityContext={"windowsOptions": {"hostProcess": True}}), "hostProcess (pod must not set"),
]
RESTRICTED_CASES = [
    (secured({"allowPrivilegeEscalation": True}), "allowPrivilegeEscalation != false"),
    (secured({"capabilities": {}}), 'must set securityContext.capabilities.drop=["ALL"]'),
    (secured({"runAsNonRoot": None}), 'pod or container "c" must set securityContext.runAsNonRoot=true'),
    (secured({"runAsNonRoot": False}), 'container "c" must not set securityContext.runAsNonRoot=false'),
    (secured({"runAsUser": 0}), 'runAsUser=0 (container "c" must not set runAsUser=0)'),
    (secured({"seccompProfile": None}), 'must set securityContext.seccompProfile.type to "RuntimeDefault" or'),
    (
        secured(volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
        'volume "v" uses restricted volume type "nfs"',
    ),
    (
        {**secured(), "spec": {**secured()["spec"], "initContainers": [{"name": "init", "image": "i"}]}},
        'container "init" must set securityContext.allowPrivilegeEscalation=false',
    ),
]


def text(level, obj):
    return pod_security.SecurityLevel(level=level).text(obj)


@pytest.mark.parametrize(("obj", "words"), BASELINE_CASES)
def test_what_the_level_baseline_forbids(obj, words):
    assert words in text("baseline", obj)
    assert text("restricted", obj)
    assert not text("privileged", obj)


@pytest.mark.parametrize(("obj", "words"), RESTRICTED_CASES)
def test_what_only_the_level_restricted_forbids(obj, words):
    assert not text("baseline", obj)
    assert words in text("restricted", obj)


def test_every_check_has_a_case_that_it_alone_finds_or_shares():
    found = {
        check.name
        for check in pod_security_checks.CHECKS
        for obj, _ in (*BASELINE_CASES, *RESTRICTED_CASES)
        if check.find(obj, pod_security_checks.NEWEST_MINOR)
    }
    assert found == {check.name for check in pod_security_checks.CHECKS}


def test_a_pod_that_every_level_allows():
    assert not text("restricted", secured())


def test_an_older_version_of_the_policy_forbids_less():
    probe = secured(livenessProbe={"httpGet": {"port": 1, "host": "10.0.0.1"}})
    assert pod_security.SecurityLevel(level="baseline", version="v1.34").text(probe)
    assert not pod_security.SecurityLevel(level="baseline", version="v1.33").text(probe)
    assert pod_security.SecurityLevel(level="baseline", version="v1.999").text(probe)


async def label(api, **labels):
    body = {"metadata": {"labels": {f"pod-security.kubernetes.io/{key}": value for key, value in labels.items()}}}
    return await send(api, "PATCH", "/api/v1/namespaces/ml", body, content_type=MERGE)


async def test_enforced_levels_refuse_pods_in_the_words_of_kubernetes(api):
    await label(api, enforce="restricted")
    answer = await create(api, pod("p"))
    assert (answer.code, answer.message) == (
        403,
        (
            'pods "p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
            '(container "c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities '
            '(container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container '
            '"c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set '
            'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
        ),
    )
    assert (await create(api, secured())).code == 201


async def test_a_warned_level_warns_of_pods_and_templates(api):
    await label(api, warn="baseline")
    answer = await create(api, pod("p", hostNetwork=True))
    warning = 'would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
    assert (answer.code, warning in answer.warnings) == (201, True)
    containers = {"containers": [{"name": "c", "image": "i"}], "hostNetwork": True, "restartPolicy": "Never"}
    template = {"template": {"spec": containers}}
    job = {**core("Job", "j", spec=template), "apiVersion": "batch/v1"}
    cron = core("CronJob", "c", spec={"schedule": "0 0 * * *", "jobTemplate": {"spec": template}})
    for obj in (job, {**cron, "apiVersion": "batch/v1"}):
        answer = await create(api, obj)
        assert (answer.code, warning in answer.warnings) == (201, True)


async def test_an_enforced_level_warns_of_templates_and_refuses_their_pods(api):
    await label(api, enforce="baseline")
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "hostPID": True, "restartPolicy": "Never"}}
    answer = await create(api, {**core("Job", "j", spec={"template": template}), "apiVersion": "batch/v1"})
    assert (answer.code, len(answer.warnings)) == (201, 1)
    assert (await create(api, pod("p", hostPID=True))).code == 403


async def test_an_audited_level_is_logged(api, caplog):
    caplog.set_level("INFO", logger=pod_security.__name__)
    await label(api, audit="baseline")
    answer = await create(api, pod("p", hostIPC=True))
    assert (answer.code, answer.warnings) == (201, ())
    assert 'pods ml/p would violate PodSecurity "baseline:latest": host namespaces (hostIPC=true)' in caplog.text


async def test_a_namespace_with_a_faulty_level_is_refused(api):
    answer = await label(api, enforce="strict")
    assert (answer.code, answer.message) == (
        422,
        (
            'Namespace "ml" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": '
            "must be one of privileged, baseline, restricted"
        ),
    )
    assert (await label(api, **{"enforce": "baseline", "enforce-version": "1.30"})).code == 422


async def test_a_stricter_namespace_lists_its_pods_that_violate_it(api):
    await create(api, pod("a", hostNetwork=True))
    await create(api, pod("b", hostNetwork=True))
    assert (await label(api, enforce="baseline")).warnings == (
        'existing pods in namespace "ml" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 1 other pod): host namespaces",
    )


async def test_a_pod_stays_updatable_in_a_stricter_namespace_but_gets_no_new_image(api):
    await create(api, pod("p"))
    await label(api, enforce="restricted")
    path = f"{PODS}/p"
    labelled = await send(api, "PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert labelled.code == 200
    change = [{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}]
    assert (await send(api, "PATCH", path, change, content_type="application/json-patch+json")).code == 403


async def test_objects_without_effect_are_stored_with_a_warning(api):
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}}
    claim["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    answer = await create(api, claim)
    expected = "this PersistentVolumeClaim is stored, but it has no effect: there are no persistent volumes"
    assert (answer.code, answer.warnings) == (201, (expected,))


async def test_a_token_secret_without_an_account_is_stored_with_a_warning(api):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    secret["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "nobody"}
    answer = await create(api, secret | {"type": "kubernetes.io/service-account-token"})
    expected = "no token is written to this Secret: its service account does not exist, or you may not get Secrets"
    assert (answer.code, answer.warnings) == (201, (expected,))


@pytest.mark.parametrize("kind", ["ResourceQuota", "LimitRange"])
async def test_a_namespace_has_a_hundred_quotas_at_most(api, kind):
    spec = {"hard": {"pods": "1000"}} if kind == "ResourceQuota" else {"limits": []}
    answers = [await create(api, core(kind, f"q{number}", spec=spec)) for number in range(101)]
    assert [answer.code for answer in answers] == [201] * 100 + [403]
    assert "has 100" in answers[-1].body["message"]
    assert "delete one first" in answers[-1].body["message"]
