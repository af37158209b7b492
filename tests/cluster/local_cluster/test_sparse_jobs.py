"""Jobs that lack a field. What the API accepts, no operator and no framework raises on.

A CustomResourceDefinition often requires nothing at all, and a job without `spec` is stored.
"""

import copy
import traceback

import pytest
from tests.cluster.fake_api import FakeApi
from tests.cost import object_templates

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.cluster import refused_children
from pykueue.cluster.apps import deployment, replica_set, stateful_set
from pykueue.cluster.operators import job_set, leader_worker_set, train_job
from pykueue.cluster.operators.kubeflow import sync as training
from pykueue.cluster.operators.kubeflow.frameworks import FRAMEWORKS as TRAINING_FRAMEWORKS
from pykueue.cluster.operators.ray import cluster as ray_cluster
from pykueue.cluster.operators.ray import job as ray_job
from pykueue.cluster.operators.ray import service as ray_service
from pykueue.translate.jobs import framework as frameworks
from pykueue.translate.jobs.registry import FRAMEWORKS

SYNCS = {
    resources.RAY_CLUSTER: ray_cluster.sync,
    resources.RAY_JOB: ray_job.sync,
    resources.RAY_SERVICE: ray_service.sync,
    resources.JOB_SET: job_set.sync,
    resources.LEADER_WORKER_SET: leader_worker_set.sync,
    resources.TRAIN_JOB: train_job.reconciler(lambda _runtime: None),
    resources.REPLICA_SET: replica_set.sync,
    resources.DEPLOYMENT: deployment.sync,
    resources.STATEFUL_SET: stateful_set.sync,
    **{framework.resource: training.reconciler(framework) for framework in TRAINING_FRAMEWORKS},
}
BY_RESOURCE = {framework.resource: framework for framework in FRAMEWORKS.values()}
KINDS = {f"apis/{kind.api_version} {kind.plural}": kind for kind in (*SYNCS, *BY_RESOURCE)}
NAMES = sorted(set(KINDS) & set(object_templates.NAMESPACED))


def paths(value, path=()):
    """The path of every field and item."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in inner:
        yield (*path, step)
        yield from paths(child, (*path, step))


def sparse(obj):
    """The object without one field, or with an empty value there."""
    for path in paths(obj):
        for empty in (None, {}, []):
            changed = copy.deepcopy(obj)
            parent = changed
            for step in path[:-1]:
                parent = parent[step]
            if empty is None:
                del parent[path[-1]]
            elif isinstance(parent[path[-1]], type(empty)):
                parent[path[-1]] = empty
            else:
                continue
            yield path, changed


def run_operator(resource, obj):
    """Two syncs: one that creates children, and one that reads their status."""
    api = FakeApi()
    owner = api.add(obj)
    for _ in range(2):
        children = [child for kind, _ in list(api.objects) for child in api.of(kind) if child["kind"] != owner["kind"]]
        sync = refused_children.reporting(resource, SYNCS[resource])
        api.run(sync(copy.deepcopy(api.get(owner["kind"], owner["metadata"]["name"])), children, api.now))


def read_job(framework, obj):
    options = frameworks.JobOptions()
    framework.skips(obj)
    frameworks.is_suspended(framework, obj)
    framework.finished(obj)
    framework.is_active(obj)
    framework.pods_ready(obj)
    framework.reclaimable(obj)
    frameworks.pod_sets(framework, obj, options)


def faults_of(resource, path, obj):
    calls = {"operator": lambda: run_operator(resource, obj)} if resource in SYNCS else {}
    if resource in BY_RESOURCE:
        calls["framework"] = lambda: read_job(BY_RESOURCE[resource], copy.deepcopy(obj))
    for name, call in calls.items():
        try:
            call()
        except (frameworks.MissingDependencyError, ApiError):
            continue
        except Exception as error:  # noqa: BLE001 - any error is a fault
            place = traceback.extract_tb(error.__traceback__)[-1]
            yield f"{name} without {'.'.join(map(str, path))}: {error!r} at {place.filename}:{place.lineno}"


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.split()[1])
async def test_no_missing_field_stops_a_controller(client, name):
    resource = KINDS[name]
    faults, accepted = [], 0
    template = object_templates.NAMESPACED[name]
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    for number, (path, changed) in enumerate(sparse({"spec": template["spec"]})):
        try:
            obj = await client.create(resource, {**head, "metadata": {"name": f"a{number}"}, **changed}, "default")
        except ApiError:
            continue
        accepted += 1
        faults += faults_of(resource, path, obj)
    assert accepted
    assert not faults, "\n".join(faults)
