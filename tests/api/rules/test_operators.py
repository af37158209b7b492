"""What the operators' own webhooks set."""

import copy

import pytest

REPLICATED = {"name": "w", "template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}}


@pytest.fixture
def job_set(admission):
    """The spec of a JobSet as it is stored."""

    def job_set(**spec):
        metadata = {"name": "js", "namespace": "ns"}
        manifest = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata}
        return admission.stored(manifest | {"spec": {"replicatedJobs": [REPLICATED]} | spec})["spec"]

    return job_set


def test_jobs_of_a_job_set_are_indexed_and_their_pods_restart_on_failure(job_set):
    spec = job_set()["replicatedJobs"][0]["template"]["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["template"]["spec"]["restartPolicy"] == "OnFailure"


def test_pods_of_a_job_set_have_names_in_the_network(job_set):
    assert job_set()["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert job_set(network={"enableDNSHostnames": False})["network"]["enableDNSHostnames"] is False


def test_policies_of_a_job_set_have_defaults(job_set):
    spec = job_set()
    assert spec["successPolicy"] == {"operator": "All"}
    assert spec["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}


def test_failure_rules_have_names(job_set):
    rules = [{"action": "FailJobSet"}, {"name": "own", "action": "FailJobSet"}]
    assert [rule["name"] for rule in job_set(failurePolicy={"rules": rules})["failurePolicy"]["rules"]] == [
        "failurePolicyRule0",
        "own",
    ]


@pytest.mark.parametrize("suspend", [True, False])
def test_jobs_of_a_job_set_do_not_change(admission, suspend):
    metadata = {"name": "js", "namespace": "ns"}
    manifest = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata}
    old = admission.stored(manifest | {"spec": {"replicatedJobs": [REPLICATED | {"replicas": 1}], "suspend": suspend}})
    more = old | {"spec": old["spec"] | {"replicatedJobs": [REPLICATED | {"replicas": 5}]}}
    assert "spec.replicatedJobs: Invalid value" in admission.refusal(more, old)
    pod_spec = {"nodeSelector": {"a": "b"}, "containers": [{"name": "c", "image": "x"}]}
    placed = copy.deepcopy(old)
    placed["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] |= pod_spec
    assert bool(admission.refusal(placed, old)) is not suspend
