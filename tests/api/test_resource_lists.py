from pykueue.api import quantity, resource_lists


def container(restart_policy=None, **requests):
    result = {"resources": {"requests": requests}}
    return result | ({"restartPolicy": restart_policy} if restart_policy else {})


def pod_requests(**pod_spec):
    return resource_lists.to_text(resource_lists.pod_requests(pod_spec))


def test_containers_add_up():
    assert pod_requests(containers=[container(cpu="1"), container(cpu="500m", memory="1Gi")]) == {
        "cpu": "1500m",
        "memory": "1Gi",
    }


def test_the_largest_init_resultis_a_minimum():
    assert pod_requests(containers=[container(cpu="1")], initContainers=[container(cpu="3"), container(cpu="2")]) == {
        "cpu": "3"
    }


def test_a_sidecar_runs_beside_the_containers():
    assert pod_requests(containers=[container(cpu="1")], initContainers=[container("Always", cpu="2")]) == {"cpu": "3"}


def test_an_init_resultruns_beside_the_sidecars_before_it():
    before = [container("Always", cpu="2"), container(cpu="5")]
    assert pod_requests(containers=[container(cpu="1")], initContainers=before) == {"cpu": "7"}
    assert pod_requests(containers=[container(cpu="1")], initContainers=before[::-1]) == {"cpu": "5"}


def test_pod_level_requests_replace_what_they_name():
    pod_level = {"requests": {"cpu": "4", "nvidia.com/gpu": "9"}}
    assert pod_requests(containers=[container(cpu="1", memory="1Gi")], resources=pod_level) == {
        "cpu": "4",
        "memory": "1Gi",
    }


def test_overhead_comes_on_top():
    assert pod_requests(containers=[container(cpu="1")], overhead={"cpu": "250m"}) == {"cpu": "1250m"}


def test_amounts_are_thousandths_of_cpu_and_whole_units_of_the_rest():
    assert resource_lists.amount("cpu", quantity.parse("1")) == 1000
    assert resource_lists.amount("memory", quantity.parse("1Ki")) == 1024
    assert resource_lists.amount("example.com/gpu", quantity.parse("1500m")) == 2


def test_amounts_stay_within_int64():
    assert resource_lists.amount("cpu", quantity.parse("1E")) == 2**63 - 1


def test_names_above_ignores_what_is_not_bounded():
    assert resource_lists.names_above({"cpu": "2", "memory": "1Gi"}, {"cpu": "1500m"}) == ["cpu"]
