"""The policies on a real API server.

PYKUEUE_POLICIES_KUBECONFIG names a cluster of Kubernetes 1.36 in which objects may be created. The
policies are applied once; all further writes are dry runs, whose verdicts must equal those of the
rules in Python.
"""

import asyncio
import itertools
import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli import malformed
from tests.install import (
    job_objects,
    policy_verdicts,
    test_job_validations,
    test_suspension,
    test_workload_validations,
    write_cases,
)
from tests.install.job_objects import JOBS, changed, marked, placed, suspended

from pykueue.api import crds, manifests, registry, schema, schema_validation, yaml_text
from pykueue.api.errors import ApiError
from pykueue.api.rules import syntax
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Kind, Resource
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.install import policies, version_aliases
from pykueue.kube import access
from pykueue.kube.client import WriteOptions
from pykueue.kube.http_client import HttpClient

KUBECONFIG = os.environ.get("PYKUEUE_POLICIES_KUBECONFIG", "")
NAMESPACES = ("n", "ns", "with-default")
BUILT_IN = ("", "apps", "batch")
DRY_RUN = WriteOptions(dry_run=True)
SCHEME = registry.scheme()
WORKLOADS = SCHEME.for_kind("kueue.x-k8s.io/v1beta2", "Workload")
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
QUEUE_RULE = "kueue.x-k8s.io/queue-name"

pytestmark = [
    pytest.mark.skipif(not KUBECONFIG, reason="PYKUEUE_POLICIES_KUBECONFIG names no cluster"),
    pytest.mark.timeout(900),
]


def kubectl(*arguments, text=None):
    command = ["kubectl", "--kubeconfig", KUBECONFIG, *arguments]
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def definitions_of_frameworks():
    """Kinds of job frameworks that accept any fields, so that only the policies refuse them."""
    resources = [
        job_kind.resource for job_kind in job_kinds.JOB_KINDS.values() if job_kind.resource.group not in BUILT_IN
    ]
    kinds = [
        Kind(
            group=resource.group, version=resource.version, kind=resource.kind, plural=resource.plural, namespaced=True, schema=_OPEN,
            is_builtin=False,
        )
        for resource in resources
    ]  # fmt: skip
    approval = {"api-approved.kubernetes.io": "unapproved, for tests"}
    return [changed(definition, ("metadata", "annotations"), approval) for definition in crds.definitions(kinds)]


def resource_of(obj):
    """The address of an object of a known kind, also of one that our registry does not have."""
    group, _, version = obj["apiVersion"].rpartition("/")
    for job_kind in job_kinds.JOB_KINDS.values():
        if (job_kind.resource.group, job_kind.resource.kind) == (group, obj["kind"]):
            return Resource(group, version, job_kind.resource.plural, obj["kind"], namespaced=True)
    kind = SCHEME.for_object(obj)
    return None if kind is None else kind.resource


@pytest.fixture(scope="module")
def installed():
    """A cluster with old objects that no policy saw, and then all policies."""
    for kind in ("validating", "mutating"):
        for part in ("policybinding", "policy"):
            kubectl("delete", f"{kind}admission{part}", "--selector", "app.kubernetes.io/part-of=pykueue")
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
    kinds = [*crds.definitions(version_aliases.kinds()), *definitions_of_frameworks()]
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=yaml_text.dump([*spaces, *kinds]))
    kubectl("wait", "--for", "condition=Established", "crds", "--all", "--timeout=60s")
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "spec": {"clusterQueue": "cq"}}
    queue["metadata"] = {"name": "default", "namespace": "with-default"}
    kubectl("apply", "--server-side", "-f", "-", text=yaml_text.dump([queue]))
    kinds = {resource_of(obj) for obj in OLD}
    kubectl(
        "delete", ",".join(f"{resource.plural}.{resource.group}" for resource in kinds), "--all", "--namespace", "n"
    )
    asyncio.run(_write_old_objects())
    objects = policies.objects(policy_verdicts.settings())
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=yaml_text.dump(objects))
    _wait_until_policies_act(len(objects) // 2)
    return KUBECONFIG


def _wait_until_policies_act(count):
    """Each is compiled and watched some moments after it was written: the last of them too."""
    bad = [marked(job, {QUEUE_RULE: "bad_queue"}) for job in JOBS.values()]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if all(asyncio.run(_all_refused(bad))):
            return
        time.sleep(1)
    pytest.fail(f"{count} policies are there, but not all of them act")


async def _all_refused(objects):
    async with await _client() as client:
        return [not await client.accepts(obj) for obj in objects]


def faults_of_schema(workload, old=None):
    return schema_validation.validate(WORKLOADS.schema, schema.apply_defaults(WORKLOADS.schema, workload), old)


OLD = [
    *(
        suspended(marked(JOBS[kind], labels), value=value)
        for kind in JOBS
        if resource_of(JOBS[kind]).group not in BUILT_IN
        for labels in test_job_validations.LABELS
        for value in (True, False)
    ),
    *(state for state in test_workload_validations.STATES if not faults_of_schema(state)),
]


def named(obj, index):
    return changed(obj, ("metadata",), obj["metadata"] | {"name": f"old-{index}", "namespace": "n"})


async def _write_old_objects():
    async with await _client() as client:
        await client.write_all([named(obj, index) for index, obj in enumerate(OLD)])


class RealCluster:
    def __init__(self, client):
        self._client, self._slots = client, asyncio.Semaphore(8)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self._client.close()

    async def accepts(self, obj):
        return await self.complaint(obj) is None

    async def created(self, obj):
        """What a creation would make."""
        async with self._slots:
            return await self._client.create(resource_of(obj), obj, obj["metadata"]["namespace"], DRY_RUN)

    async def complaint(self, obj):
        """Why a creation is refused, None if it is not."""
        resource, obj = resource_of(obj), changed(obj, ("status",), None)
        namespace = (obj["metadata"].get("namespace") or "ns") if resource.namespaced else ""
        return await self._try(self._client.create(resource, obj, namespace, DRY_RUN))

    async def complaint_about_change(self, old_index, new):
        """Of the specification, or of the status where only that is different."""
        new = named(new, old_index)
        stored = await self._client.get(resource_of(new), new["metadata"]["name"], "n")
        new["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        same_spec = stored["spec"] == new["spec"] and new["metadata"].get("annotations") == stored["metadata"].get(
            "annotations"
        )
        subresource = "status" if new["kind"] == "Workload" and same_spec else ""
        return await self._try(self._client.update(resource_of(new), new, subresource=subresource, options=DRY_RUN))

    async def _try(self, call):
        async with self._slots:
            try:
                await call
            except ApiError as error:
                return error.message
        return None

    async def write_all(self, objects):
        async def write(obj):
            async with self._slots:
                resource, name = resource_of(obj), obj["metadata"]["name"]
                await self._client.create(resource, obj, "n")
                if "status" in obj:
                    await self._client.patch(resource, name, "n", {"status": obj["status"]}, subresource="status")

        await asyncio.gather(*map(write, objects))


async def _client():
    return RealCluster(HttpClient(await access.from_kubeconfig(Path(KUBECONFIG)), user_agent="policies/1"))


async def by_embedded_api(objects):
    core = Core(Store(MemoryLog()), registry.scheme(), settings=policy_verdicts.settings())
    await core.start()
    client = LocalClient(core, SCHEME)
    for name in NAMESPACES:
        await client.create(SCHEME.for_kind("v1", "Namespace").resource, {"metadata": {"name": name}})
    messages = []
    for obj in objects:
        resource = SCHEME.for_object(obj).resource
        namespace = (obj["metadata"].get("namespace") or "ns") if resource.namespaced else ""
        try:
            await client.create(resource, obj, namespace, DRY_RUN)
            messages.append(None)
        except ApiError as error:
            messages.append(error.message)
    await core.stop()
    return messages


def readable():
    for text in malformed.manifests(400).values():
        documents, _ = manifests.read(text)
        for obj in (document.object for document in documents):
            shape = [type(obj.get(name)) for name in ("apiVersion", "kind", "metadata")]
            if shape == [str, str, dict] and SCHEME.for_object(obj):
                yield obj


async def differences(objects, expected):
    async with await _client() as client:
        messages = await asyncio.gather(*(client.complaint(obj) for obj in objects))
    return [
        (real, ours, obj)
        for obj, real, ours in zip(objects, messages, expected, strict=True)
        if (real is None) != (ours is None)
    ]


async def test_malformed_manifests_and_all_cases_get_the_verdict_of_the_embedded_api(installed):
    objects = [*readable(), *write_cases.CREATED]
    assert await differences(objects, await by_embedded_api(objects)) == []


async def test_jobs_of_frameworks_get_the_verdict_of_the_rules(installed):
    objects = [
        *(marked(job, labels) for job in OF_FRAMEWORKS for labels in job_objects.LABELS),
        *(marked(job, None, annotations) for job in OF_FRAMEWORKS for annotations in job_objects.ANNOTATIONS),
        *(
            placed(job, placement)
            for job in OF_FRAMEWORKS
            if job["kind"] in job_objects.TEMPLATES
            for placement in job_objects.PLACEMENTS
        ),
        *(obj for job in test_job_validations.OWN_RULES for obj in (job, marked(job, {}))),
    ]
    created = [
        suspended(obj, value=True) if obj["kind"] in job_objects.SUSPEND else obj for obj in objects if has_labels(obj)
    ]
    expected = [(policy_verdicts.complaints(test_suspension.by_rules(obj)) or [None])[0] for obj in created]
    assert await differences(created, expected) == []


def has_labels(obj):
    """Whether Kubernetes itself takes its labels."""
    return not any(syntax.label_value(value) for value in obj["metadata"]["labels"].values())


OF_FRAMEWORKS = [job for job in JOBS.values() if resource_of(job).group not in BUILT_IN]


async def test_changes_get_the_verdict_of_the_rules(installed):
    pairs = [
        (index, new)
        for index, new in itertools.product(range(len(OLD)), OLD)
        if OLD[index]["kind"] == new["kind"] and (index % 3 == 0 or new["kind"] == "Workload")
    ]
    async with await _client() as client:
        messages = await asyncio.gather(*(client.complaint_about_change(*pair) for pair in pairs))
    wrong = []
    for (index, new), real in zip(pairs, messages, strict=True):
        after, before = _as_seen(named(new, index), named(OLD[index], index))
        ours = policy_verdicts.complaints(after, before)
        if after["kind"] == "Workload":
            ours += faults_of_schema(after, before)
        if (real is None) == bool(ours):
            wrong.append((real, ours, before, after))
    assert wrong == []


def _as_seen(new, old):
    """A write of the specification leaves the status, a write of the status leaves all else."""
    if new["kind"] != "Workload":
        return new, old
    same = new["spec"] == old["spec"] and new["metadata"].get("annotations") == old["metadata"].get("annotations")
    return (changed(old, ("status",), new.get("status")) if same else changed(new, ("status",), old.get("status"))), old


def mentions(value):
    """Everything of Kueue's in an object, but for the hash that only the controller can make."""
    if isinstance(value, dict):
        return sorted(name for item in value.items() for part in item for name in mentions(part))
    if isinstance(value, list):
        return sorted(name for part in value for name in mentions(part))
    is_ours = isinstance(value, str) and "kueue.x-k8s.io" in value and value != test_suspension.ROLE_HASH
    return [str(value)] if is_ours or value is True else []


@pytest.mark.parametrize("namespace", ["n", "with-default"])
async def test_what_is_created_is_changed_as_the_rules_change_it(installed, namespace):
    jobs = [marked(JOBS[kind], labels) for kind in test_suspension.KINDS for labels in test_suspension.LABELS]
    jobs += [
        job for job in test_suspension.SPECIAL.values() if not policy_verdicts.complaints(test_suspension.by_rules(job))
    ]
    jobs = [
        changed(job, ("metadata", "namespace"), namespace)
        for job in jobs
        if job["metadata"]["labels"].get(QUEUE_RULE) != ""
    ]
    async with await _client() as client:
        created = await asyncio.gather(*(client.created(job) for job in jobs))
    expected = [test_suspension.by_rules(job, has_defaults=namespace == "with-default") for job in jobs]
    wrong = [
        (sorted(set(mentions(real)) ^ set(mentions(ours))), ours, real)
        for real, ours in zip(created, expected, strict=True)
        if mentions(_without_kubernetes_defaults(real)) != mentions(_without_kubernetes_defaults(ours))
    ]
    assert wrong == []


def _without_kubernetes_defaults(obj):
    """Kubernetes says `true` in places of its own."""
    spec = {key: value for key, value in obj["spec"].items() if key != "enableServiceLinks"}
    return {
        "metadata": {key: obj["metadata"].get(key) for key in ("labels", "annotations", "finalizers")},
        "spec": spec,
    }


async def test_no_expression_is_of_a_wrong_type(installed):
    """As the controller manager of the cluster sees it, where one runs."""
    items = json.loads(kubectl("get", "validatingadmissionpolicies", "--output", "json"))["items"]
    warnings = [policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings") for policy in items]
    assert [warning for warning in warnings if warning] == []
