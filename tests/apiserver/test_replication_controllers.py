"""ReplicationControllers have the defaults and the validation of Kubernetes."""

import pytest
from tests.apiserver.api_requests import create

TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def controller(**spec):
    metadata = {"name": "r", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ReplicationController", "metadata": metadata, "spec": spec}


async def test_selector_and_labels_are_those_of_the_template(api):
    answer = await create(api, controller(template=TEMPLATE))
    assert (answer.code, answer.warnings) == (201, ())
    assert answer.body["spec"]["selector"] == {"app": "x"}
    assert answer.body["spec"]["replicas"] == 1
    assert answer.body["metadata"]["labels"] == {"app": "x"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"template": TEMPLATE, "selector": {"app": "y"}}, "spec.template.metadata.labels"),
        ({"selector": {"app": "y"}}, "spec.template"),
        ({"template": TEMPLATE, "replicas": -1}, "spec.replicas"),
    ],
)
async def test_a_faulty_one_names_the_field(api, spec, field):
    answer = await create(api, controller(**spec))
    assert answer.code == 422
    assert field in {cause["field"] for cause in answer.body["details"]["causes"]}
