import pytest

from pykueue.api.errors import ApiError
from pykueue.translate import pod_set_info
from pykueue.translate.pod_set_info import PodSetConflictError, PodSetInfo

SPOT = {"spec": {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{}]}}


def test_an_assignment_brings_its_flavors_labels_and_tolerations_once():
    assignment = {"name": "main", "count": 2, "flavors": {"cpu": "spot", "memory": "spot"}}
    info = pod_set_info.from_assignment(assignment, {"count": 3}, flavors={"spot": SPOT})
    assert (info.count, info.node_selector, len(info.tolerations)) == (2, {"pool": "spot"}, 1)


def test_a_flavor_that_is_gone_is_not_found():
    with pytest.raises(ApiError, match=r'"spot" not found'):
        pod_set_info.from_assignment({"name": "main", "flavors": {"cpu": "spot"}}, {"count": 1}, flavors={})


def test_merging_adds_to_the_template():
    merged = pod_set_info.merged_template(TEMPLATE, PodSetInfo(node_selector={"pool": "spot"}, labels={"team": "a"}))
    assert merged["spec"]["nodeSelector"] == {"disk": "ssd", "pool": "spot"}
    assert merged["metadata"]["labels"] == {"app": "x", "team": "a"}


def test_a_contradicting_selector_is_a_conflict():
    with pytest.raises(
        PodSetConflictError, match="conflict for nodeSelector: conflict for key=disk, value1=ssd, value2=hdd"
    ):
        pod_set_info.merged_template(TEMPLATE, PodSetInfo(node_selector={"disk": "hdd"}))


def test_restoring_undoes_merging():
    merged = pod_set_info.merged_template(
        TEMPLATE, PodSetInfo(node_selector={"pool": "spot"}, annotations={"a": "1"}, tolerations=({"key": "k"},))
    )
    saved = pod_set_info.from_pod_set({"name": "main", "count": 1, "template": TEMPLATE})
    assert pod_set_info.restored_template(merged, saved) == TEMPLATE
