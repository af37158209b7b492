from pykueue.api import limit_range


def limits(**item):
    return {"spec": {"limits": [item]}}


def test_the_tightest_bound_counts():
    summary = limit_range.summarize(
        [
            limits(type="Pod", max={"cpu": "4"}, min={"cpu": "1"}),
            limits(type="Pod", max={"cpu": "2", "memory": "1Gi"}, min={"cpu": "500m"}),
        ]
    )
    assert summary == {"Pod": {"max": {"cpu": "2", "memory": "1Gi"}, "min": {"cpu": "1"}}}


def test_the_first_default_counts():
    ranges = [limits(type="Container", default={"cpu": "4"}), limits(type="Container", default={"cpu": "2"})]
    assert limit_range.summarize(ranges) == {"Container": {"default": {"cpu": "4"}}}


def test_a_container_above_the_maximum_is_named_by_its_path():
    summary = {"Container": {"max": {"cpu": "1"}}}
    pod_spec = {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}
    assert [str(error) for error in limit_range.pod_spec_errors(summary, pod_spec, "spec")] == [
        'spec.containers[0]: Invalid value: ["cpu"]: requests must not be above the limitRange max'
    ]


def test_a_pod_below_the_minimum_is_refused_as_a_whole():
    summary = {"Pod": {"min": {"cpu": "3"}}}
    pod_spec = {"containers": [{"resources": {"requests": {"cpu": "1"}}}] * 2}
    assert [error.field for error in limit_range.pod_spec_errors(summary, pod_spec, "spec")] == ["spec"]


def test_requests_above_limits_are_refused():
    pod_sets = [
        {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}}}
    ]
    assert [error.field for error in limit_range.requests_above_limits(pod_sets)] == [
        "spec.podSets[0].template.spec.containers[0]"
    ]
