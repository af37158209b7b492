"""A queue that dispatches has one check of MultiKueue, for all flavors, and no provisioning."""

import pytest

from pykueue.engine import values
from pykueue.engine.queues.cluster_queue import inactivity
from pykueue.translate import queue_report

CHECKS = {
    name: values.AdmissionCheck(name=name, controller=controller)
    for name, controller in (("a", values.MULTIKUEUE), ("b", values.MULTIKUEUE), ("p", values.PROVISIONING))
}


@pytest.fixture
def message():
    """The message of the Active condition of a queue with these checks."""

    def message(**flavors):
        group = values.ResourceGroup(
            covered_resources=("cpu",),
            flavors=tuple(values.FlavorQuotas(name=name, resources={}) for name in ("x", "y")),
        )
        queue = values.ClusterQueue(
            name="q",
            resource_groups=(group,),
            admission_checks={name: frozenset(limited) for name, limited in flavors.items()},
        )
        known = {name: values.ResourceFlavor(name=name) for name in ("x", "y")}
        return queue_report.activity(inactivity(queue, known, CHECKS))[2]

    return message


def test_one_check_for_all_flavors_is_usable(message):
    assert message(a=()) == message(a=("x", "y")) == "Can admit new workloads"


def test_several_checks_are_not(message):
    assert "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: a,b." in message(a=(), b=())


def test_a_check_for_one_flavor_is_not(message):
    assert "Cannot specify MultiKueue AdmissionCheck per flavor, found: a." in message(a=("x",))


def test_a_check_beside_provisioning_is_not(message):
    expected = "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: a, p."
    assert expected in message(a=(), p=())
