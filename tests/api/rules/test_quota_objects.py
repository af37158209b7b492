import pytest

from pykueue.api.errors import ApiError

QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "queue"},
    "spec": {"cohortName": "team", "namespaceSelector": {}, "resourceGroups": []},
}
COHORT = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "team"}, "spec": {}}
FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "x"}, "spec": {}}
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def group(*covered, flavor="default", **limits):
    resources = [{"name": name, "nominalQuota": "1", **limits} for name in covered]
    return {"coveredResources": list(covered), "flavors": [{"name": flavor, "resources": resources}]}


def queue(*groups, **spec):
    return {**QUEUE, "spec": {**QUEUE["spec"], "resourceGroups": list(groups), **spec}}


FIRST = "spec.resourceGroups[0].flavors[0].resources[0]"


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (
            queue(group("cpu", nominalQuota="-1")),
            f'{FIRST}.nominalQuota: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            queue(group("cpu", borrowingLimit="-2")),
            f'{FIRST}.borrowingLimit: Invalid value: "-2": must be greater than or equal to 0',
        ),
        (
            queue(group("cpu", lendingLimit="2")),
            f'{FIRST}.lendingLimit: Invalid value: "2": must be less than or equal to the nominalQuota',
        ),
        (
            queue(group("cpu", lendingLimit="1"), cohortName=""),
            f'{FIRST}.lendingLimit: Invalid value: "1": must be nil when cohort is empty',
        ),
        (
            queue(group("cpu", borrowingLimit=1), cohortName=""),
            f'{FIRST}.borrowingLimit: Invalid value: "1": must be nil when cohort is empty',
        ),
        (queue(group("@cpu")), f'spec.resourceGroups[0].coveredResources[0]: Invalid value: "@cpu": {NAME_PART}'),
        (
            queue(group("cpu"), group("cpu", flavor="b")),
            'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
        ),
        (queue(group("cpu"), group("memory")), 'spec.resourceGroups[1].flavors[0].name: Duplicate value: "default"'),
        (
            queue(fairSharing={"weight": "-1"}),
            'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            queue(fairSharing={"weight": "1n"}),
            'spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9',
        ),
        (
            queue(group("cpu"), admissionChecksStrategy={"admissionChecks": [{"name": "c", "onFlavors": ["nope"]}]}),
            'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "nope": supported values: "default"',
        ),
        (
            queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "spec.namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            queue(flavorFungibility={"preference": "BorrowingOverPreemption", "whenCanBorrow": "TryNextFlavor"}),
            'spec.flavorFungibility.preference: Invalid value: "BorrowingOverPreemption": preference "BorrowingOverPreemption" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor',
        ),
        (
            {**COHORT, "spec": {"resourceGroups": [group("cpu", lendingLimit="1")]}},
            f'{FIRST}.lendingLimit: Invalid value: "1": must be nil when parent is empty',
        ),
        (
            {**FLAVOR, "spec": {"nodeLabels": {"bad key": "x"}}},
            f'spec.nodeLabels: Invalid value: "bad key": {NAME_PART}',
        ),
        (
            {
                **FLAVOR,
                "spec": {
                    "nodeTaints": [
                        {"key": "k", "effect": "NoSchedule"},
                        {"effect": "NoSchedule", "value": "w", "key": "k"},
                    ]
                },
            },
            'spec.nodeTaints[1]: Duplicate value: {"key":"k","value":"w","effect":"NoSchedule"}: taints must be unique by key and effect pair',
        ),
        (
            {**FLAVOR, "spec": {"tolerations": [{"key": "@"}]}},
            f'spec.tolerations[0].key: Invalid value: "@": {NAME_PART}',
        ),
    ],
)
def test_refused(admission, refused, why):
    assert admission.refusal(refused) == why


def test_resources_must_stand_in_the_order_of_covered_resources(admission):
    swapped = queue(group("cpu", "memory"))
    swapped["spec"]["resourceGroups"][0]["coveredResources"].reverse()
    assert admission.refusal(swapped).count("must match the name in coveredResources") == 2


@pytest.mark.parametrize("accepted", [queue(group("cpu", "nvidia.com/gpu", borrowingLimit="0")), COHORT, FLAVOR])
def test_accepted(admission, accepted):
    assert admission.refusal(accepted) == ""


def test_cohort_may_lend_more_than_nominal(admission):
    cohort = {**COHORT, "spec": {"parentName": "root", "resourceGroups": [group("cpu", lendingLimit="5")]}}
    assert admission.refusal(cohort) == ""


def test_unchanged_flavors_of_a_check_are_tolerated_on_update(admission):
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["gone"]}]}}
    old = queue(group("cpu"), **checks)
    assert admission.refusal({**old, "spec": {**old["spec"], "stopPolicy": "Hold"}}, old) == ""


def test_unchanged_flavors_of_a_check_are_refused_with_the_gate(admission_with):
    admission = admission_with(feature_gates={"RejectUpdatesToCQWithInvalidOnFlavors": True})
    old = queue(group("cpu"), admissionChecksStrategy={"admissionChecks": [{"name": "c", "onFlavors": ["gone"]}]})
    assert "Unsupported value" in admission.refusal(old, old)


@pytest.mark.parametrize("obj", [QUEUE, FLAVOR])
def test_finalizer_is_added_at_creation(admission, obj):
    assert admission.stored(obj)["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]


def test_finalizer_is_not_added_on_update(admission):
    assert "finalizers" not in admission.stored(FLAVOR, old=FLAVOR)["metadata"]


def test_node_selector_is_read_as_node_labels(admission):
    stored = admission.stored({**FLAVOR, "spec": {"nodeSelector": {"pool": "gpu"}}})
    assert stored["spec"] == {"nodeLabels": {"pool": "gpu"}}
    assert admission.warnings == ["spec.nodeSelector: read as spec.nodeLabels; write nodeLabels instead"]


def test_covered_resources_are_taken_from_the_flavors(admission):
    lenient = queue(group("nvidia.com/gpu", "cpu"))
    del lenient["spec"]["resourceGroups"][0]["coveredResources"]
    stored = admission.stored(lenient)
    assert stored["spec"]["resourceGroups"][0]["coveredResources"] == ["nvidia.com/gpu", "cpu"]
    assert admission.warnings == [
        "spec.resourceGroups[0].coveredResources: missing, taken from the flavors' resources: nvidia.com/gpu, cpu"
    ]


def test_malformed_quantity_is_refused_by_the_mutating_webhook(admission):
    with pytest.raises(ApiError, match="mclusterqueue") as raised:
        admission.stored(queue(group("cpu", nominalQuota="ten")))
    assert raised.value.code == 400


def test_quantities_of_a_new_cluster_queue_are_stored_in_their_canonical_form(admission):
    stored = admission.stored(queue(group("cpu", nominalQuota=4, lendingLimit="0.5")))
    resource = stored["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    assert (resource["nominalQuota"], resource["lendingLimit"]) == ("4", "500m")


def test_a_quota_without_an_amount_is_none(admission):
    stored = admission.stored(queue(group("cpu", nominalQuota=None)))
    assert stored["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "0"


def test_a_quota_of_another_type_cannot_be_decoded(admission):
    with pytest.raises(ApiError, match="quantities must match") as raised:
        admission.stored(queue(group("cpu", nominalQuota=True)))
    assert raised.value.code == 400


def test_totals_are_bounded(admission):
    many = [{"name": f"f{index}", "resources": [{"name": "cpu", "nominalQuota": "1"}]} for index in range(257)]
    refusal = admission.refusal(queue({"coveredResources": ["cpu"], "flavors": many}))
    assert refusal == (
        "spec.resourceGroups: Invalid value: 257: total number of flavors across all resourceGroups must be ≤ 256, got 257"
    )
