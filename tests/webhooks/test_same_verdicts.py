"""A webhook refuses exactly what the embedded API refuses by the same rules, in the same words."""

import copy
import itertools

import pytest
from tests.cli import malformed
from tests.install import job_objects, policy_verdicts, test_workload_validations, write_cases
from tests.webhooks.webhook_cluster import CONFIGURATION, EmptyLookup, api, patched, review_request

from pykueue.api import manifests, registry, schema
from pykueue.api.errors import ApiError, WebhookError, aggregate
from pykueue.api.rules import table
from pykueue.api.scheme import AdmissionRequest
from pykueue.kube.client import WriteOptions
from pykueue.webhooks.reviews import Reviewer

SETTINGS = CONFIGURATION.settings()
SCHEME = registry.scheme()
REVIEWER = Reviewer(lookup=EmptyLookup(), settings=SETTINGS)


def readable():
    """The malformed manifests that are objects of a kind that webhooks see."""
    for name, text in malformed.manifests(400).items():
        documents, _ = manifests.read(text)
        for obj in (document.object for document in documents):
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
    mutation = REVIEWER.mutate(review_request(obj))
    if not mutation["allowed"]:
        return mutation["status"]
    kind = SCHEME.for_object(obj)
    review = REVIEWER.validate(review_request(schema.apply_defaults(kind.schema, patched(obj, mutation))))
    return None if review["allowed"] else review["status"]


@pytest.mark.parametrize("obj", [*readable(), *write_cases.CREATED])
async def test_a_creation_gets_the_same_answer(obj):
    error = await by_embedded_api(obj)
    if error is not None and not isinstance(error, WebhookError):
        return  # by the rules of Kubernetes or the schema: a cluster's API server knows those
    status = by_webhooks(obj)
    refusal = status and (status["code"], status["message"])
    assert refusal == (error and (error.code, error.why))


STATES = test_workload_validations.STATES
JOBS = job_objects.JOBS.values()


@pytest.mark.parametrize(
    "writes",
    [
        write_cases.UPDATED,
        itertools.product([None], test_workload_validations.CREATED),
        itertools.product(STATES, STATES),
        [(None, job_objects.marked(job, labels)) for job in JOBS for labels in job_objects.LABELS],
        [(None, job_objects.marked(job, None, annotations)) for job in JOBS for annotations in job_objects.ANNOTATIONS],
        [
            (job_objects.marked(job, old), job_objects.marked(job, new))
            for job in JOBS
            for old in job_objects.LABELS[::4]
            for new in job_objects.LABELS[::4]
        ],
    ],
    ids=["queues", "workloads", "changed workloads", "labels", "annotations", "changed labels"],
)
def test_a_write_that_policies_are_tried_with_gets_the_same_answer(writes):
    settings, lookup = policy_verdicts.settings(), policy_verdicts.Cluster()
    reviewer = Reviewer(lookup=lookup, settings=settings)
    for old, new in writes:
        operation = "CREATE" if old is None else "UPDATE"
        request = AdmissionRequest(operation=operation, object=new, old=old, lookup=lookup, settings=settings)
        denied = table.rules_of(*policy_verdicts.group_and_kind(new)).validator(request).denied
        response = reviewer.validate(review_request(new, old))
        assert response.get("status", {}).get("message") == (aggregate(denied) if denied else None)
