"""A webhook refuses what the embedded API refuses by the same rules, in the same words, and nothing else."""

import copy
import itertools

import pytest
from tests.cli import malformed
from tests.install import cases, jobs, test_workload_validations, verdicts
from tests.webhooks.neighbourhood import CONFIGURATION, Nothing, api, asked, patched

from pykueue.api import manifests, registry, schema
from pykueue.api.errors import ApiError, WebhookError, aggregate
from pykueue.api.rules import table
from pykueue.api.scheme import AdmissionRequest
from pykueue.kube.client import WriteOptions
from pykueue.webhooks.reviews import Reviewer

SETTINGS = CONFIGURATION.settings()
SCHEME = registry.scheme()
REVIEWER = Reviewer(lookup=Nothing(), settings=SETTINGS)


def readable():
    """The malformed manifests that are objects of a kind that webhooks see."""
    for name, text in malformed.manifests(400).items():
        documents, _ = manifests.read(text)
        for obj in (each.object for each in documents):
            shape = [type(obj.get(name)) for name in ("apiVersion", "kind", "metadata")]
            if shape == [str, str, dict] and SCHEME.for_object(obj):
                yield pytest.param(obj, id=name)


async def by_embedded_api(obj):
    """The error of a creation, None if it is fine."""
    async with api(SETTINGS) as client:
        await client.create(SCHEME.for_kind("v1", "Namespace").resource, {"metadata": {"name": "ns"}})
        try:
            resource = SCHEME.for_object(obj).resource
            await client.create(resource, copy.deepcopy(obj), "ns", WriteOptions(dry_run=True))
        except ApiError as error:
            return error
    return None


def by_webhooks(obj):
    """The status of a refusal, None if both allow it."""
    mutation = REVIEWER.mutate(asked(obj))
    if not mutation["allowed"]:
        return mutation["status"]
    kind = SCHEME.for_object(obj)
    review = REVIEWER.validate(asked(schema.apply_defaults(kind.schema, patched(obj, mutation))))
    return None if review["allowed"] else review["status"]


@pytest.mark.parametrize("obj", [*readable(), *cases.CREATED])
async def test_a_creation_gets_the_same_answer(obj):
    error = await by_embedded_api(obj)
    if error is not None and not isinstance(error, WebhookError):
        return  # by the rules of Kubernetes or the schema: a cluster's API server knows those
    status = by_webhooks(obj)
    found = status and (status["code"], status["message"])
    assert found == (error and (error.code, error.why))


STATES = test_workload_validations.STATES
JOBS = jobs.JOBS.values()


@pytest.mark.parametrize(
    "writes",
    [
        cases.UPDATED,
        itertools.product([None], test_workload_validations.CREATED),
        itertools.product(STATES, STATES),
        [(None, jobs.marked(job, labels)) for job in JOBS for labels in jobs.LABELS],
        [(None, jobs.marked(job, None, annotations)) for job in JOBS for annotations in jobs.ANNOTATIONS],
        [
            (jobs.marked(job, old), jobs.marked(job, new))
            for job in JOBS
            for old in jobs.LABELS[::4]
            for new in jobs.LABELS[::4]
        ],
    ],
    ids=["queues", "workloads", "changed workloads", "labels", "annotations", "changed labels"],
)
def test_a_write_that_policies_are_tried_with_gets_the_same_answer(writes):
    settings, lookup = verdicts.settings(), verdicts.Cluster()
    reviewer = Reviewer(lookup=lookup, settings=settings)
    for old, new in writes:
        operation = "CREATE" if old is None else "UPDATE"
        request = AdmissionRequest(operation=operation, object=new, old=old, lookup=lookup, settings=settings)
        denied = table.rules_of(*verdicts.group_and_kind(new)).validator(request).denied
        response = reviewer.validate(asked(new, old))
        assert response.get("status", {}).get("message") == (aggregate(denied) if denied else None)
