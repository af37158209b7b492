"""Replays recorded verdicts of Kueue's validating webhooks and compares the errors."""

import re
from collections.abc import Iterable

from pykueue.api.rules import cluster_queue, quota, resource_flavor, workload
from pykueue.api.scheme import AdmissionRequest, Object, Resource, Settings
from pykueue.conformance import differences
from pykueue.conformance.corpus import Case, feature_gates
from pykueue.conformance.differences import Difference

_VALIDATORS = {
    "ClusterQueue": cluster_queue.validate,
    "Cohort": quota.validate_cohort,
    "ResourceFlavor": resource_flavor.validate,
    "Workload": workload.validate,
}


class _EmptyCluster:
    def get(self, _resource: Resource, _namespace: str, _name: str) -> Object | None:
        return None

    def list(self, _resource: Resource, _namespace: str = "") -> Iterable[Object]:
        return ()


def verdict(case: Case) -> list[Difference]:
    request = AdmissionRequest(
        operation=case["operation"],
        object=case["object"],
        old=case.get("oldObject"),
        lookup=_EmptyCluster(),
        settings=Settings(feature_gates=feature_gates(case)),
    )
    verdict_of_rules = _VALIDATORS[case["object"]["kind"]](request)
    expected = sorted(
        (error["type"], error["field"], _comparable(error["message"])) for error in case["expect"]["errors"]
    )
    answer = sorted((error.reason, error.field, _comparable(str(error))) for error in verdict_of_rules.denied)
    faults = differences.between(expected, answer, "errors")
    return faults + differences.between(case["expect"].get("warnings", []), list(verdict_of_rules.warnings), "warnings")


def _comparable(message: str) -> str:
    """Hides the count: Kueue prints its address instead of the number."""
    return re.sub(r"is not a multiple of \d+", "is not a multiple of N", message)


RUNNERS = dict.fromkeys(
    (
        "TestValidateClusterQueue",
        "TestValidateClusterQueueUpdate",
        "TestValidateCohort",
        "TestValidateFlavorResourceCombinations",
        "TestValidateResourceFlavor",
        "TestValidateTotalCoveredResources",
        "TestValidateTotalFlavors",
        "TestValidateWorkload",
        "TestValidateWorkloadUpdate",
    ),
    verdict,
)
