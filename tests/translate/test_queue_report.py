from pykueue.engine import values
from pykueue.translate import queue_report

USAGE = {values.FlavorResource("spot", "cpu"): 3000}


def queue(cohort=None):
    flavor = values.FlavorQuotas(
        name="spot", resources={"memory": values.Quota(nominal=2**30), "cpu": values.Quota(nominal=2000)}
    )
    group = values.ResourceGroup(covered_resources=("memory", "cpu"), flavors=(flavor,))
    return values.ClusterQueue(name="team-a", cohort=cohort, resource_groups=(group,))


def test_what_exceeds_nominal_is_borrowed():
    assert queue_report.cluster_queue_flavors(queue("all"), USAGE) == [
        {
            "name": "spot",
            "resources": [
                {"name": "cpu", "total": "3", "borrowed": "1"},
                {"name": "memory", "total": "0", "borrowed": "0"},
            ],
        }
    ]


def test_without_a_cohort_nothing_is_borrowed():
    assert queue_report.cluster_queue_flavors(queue(), USAGE)[0]["resources"][0]["borrowed"] == "0"


def test_a_local_queue_does_not_borrow():
    assert queue_report.local_queue_flavors(queue("all"), USAGE)[0]["resources"][0] == {"name": "cpu", "total": "3"}
