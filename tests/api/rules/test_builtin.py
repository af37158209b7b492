import pytest

from pykueue.api.errors import ApiError

CONTAINER = {"name": "c", "image": "busybox"}


def job(template=None, **spec):
    pod_spec = {"restartPolicy": "Never", "containers": [CONTAINER]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "uid": "u-1"},
        "spec": {"template": template or {"spec": pod_spec}, **spec},
    }


def pod(**spec):
    spec = {"containers": [CONTAINER], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": spec}


def test_job_is_stored_as_kubernetes_stores_it(admission):
    stored = admission.stored(job())
    assert stored["spec"] == {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "completions": 1,
        "manualSelector": False,
        "parallelism": 1,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}},
        "suspend": False,
        "template": {
            "metadata": {
                "labels": {
                    "batch.kubernetes.io/controller-uid": "u-1",
                    "batch.kubernetes.io/job-name": "j",
                    "controller-uid": "u-1",
                    "job-name": "j",
                }
            },
            "spec": {
                "containers": [
                    {
                        "image": "busybox",
                        "imagePullPolicy": "Always",
                        "name": "c",
                        "resources": {},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                    }
                ],
                "dnsPolicy": "ClusterFirst",
                "restartPolicy": "Never",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
            },
        },
    }


def test_job_with_parallelism_alone_has_no_completions(admission):
    assert "completions" not in admission.stored(job(parallelism=2))["spec"]


@pytest.mark.parametrize(
    ("image", "policy"),
    [("x", "Always"), ("x:latest", "Always"), ("x:1.2", "IfNotPresent"), ("host:5000/x", "Always"), ("x@sha256:0", "IfNotPresent")],
)  # fmt: skip
def test_images_without_a_fixed_tag_are_always_pulled(admission, image, policy):
    stored = admission.stored(pod(containers=[{"name": "c", "image": image}]))
    assert stored["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_pod_gets_what_the_admission_plugins_add(admission):
    spec = admission.stored(pod())["spec"]
    assert spec["serviceAccountName"] == "default"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_pod_requests_what_it_limits(admission):
    container = CONTAINER | {"resources": {"limits": {"cpu": "2"}}}
    stored = admission.stored(pod(containers=[container]))
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def test_quantities_are_stored_canonically(admission):
    container = CONTAINER | {"resources": {"requests": {"cpu": 0.5, "memory": "1024Mi", "x.io/y": 2}}}
    stored = admission.stored(pod(containers=[container]))
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi", "x.io/y": "2"}


def test_priority_comes_from_the_class(admission):
    admission.cluster.add({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7})
    assert admission.stored(pod(priorityClassName="high"))["spec"]["priority"] == 7


def test_unknown_priority_class_is_refused(admission):
    with pytest.raises(ApiError, match='pods "p" is forbidden: no PriorityClass with name high was found'):
        admission.stored(pod(priorityClassName="high"))


def limit_range(**item):
    return {"kind": "LimitRange", "metadata": {"name": "l", "namespace": "ns"}, "spec": {"limits": [item]}}


def test_limit_range_gives_defaults(admission):
    admission.cluster.add(limit_range(type="Container", default={"cpu": "2"}, defaultRequest={"cpu": "1"}))
    stored = admission.stored(pod())
    assert stored["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}
    assert stored["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    )


def test_limit_range_bounds_pods(admission):
    admission.cluster.add(limit_range(type="Container", max={"cpu": "1"}))
    big = pod(containers=[CONTAINER | {"resources": {"limits": {"cpu": "2"}}}])
    with pytest.raises(ApiError, match="maximum cpu usage per Container is 1, but limit is 2"):
        admission.verdict(big)


def test_namespace_carries_its_name_as_label(admission):
    stored = admission.stored({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    assert stored["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}


def test_limit_range_completes_itself(admission):
    limits = [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}}]
    stored = admission.stored({"apiVersion": "v1", "kind": "LimitRange", "metadata": {}, "spec": {"limits": limits}})
    assert stored["spec"]["limits"][0]["defaultRequest"] == {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (job(completions=-1), "spec.completions: Invalid value: -1: must be greater than or equal to 0"),
        (job(template={"spec": {"containers": [CONTAINER]}}), 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'),
        (job(template={"spec": {"restartPolicy": "Never"}}), "spec.template.spec.containers: Required value"),
        (job(completionMode="Indexed"), "spec.completions: Required value: when completion mode is Indexed"),
        (job(completionMode="Other"), 'spec.completionMode: Unsupported value: "Other": supported values: "NonIndexed", "Indexed"'),
        (pod(containers=[{"name": "c"}]), "spec.containers[0].image: Required value"),
        (pod(containers=[CONTAINER, CONTAINER]), 'spec.containers[1].name: Duplicate value: "c"'),
        (
            pod(containers=[CONTAINER | {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]),
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
    ],
)  # fmt: skip
def test_refused(admission, refused, why):
    assert admission.refusal(refused) == why


@pytest.mark.parametrize(
    "change", [{"completions": 5}, {"selector": {"matchLabels": {"a": "b"}}}, {"managedBy": "a.io/b"}]
)
def test_fixed_fields_of_a_job(admission, change):
    refusal = admission.refusal(job(**change), job())
    assert refusal.startswith(f"spec.{next(iter(change))}: Invalid value: ")
    assert refusal.endswith(": field is immutable")


def moved(**status):
    pod_spec = {"restartPolicy": "Never", "containers": [CONTAINER], "nodeSelector": {"pool": "gpu"}}
    return job(template={"spec": pod_spec}, suspend=True), job(suspend=True) | {"status": status}


def test_template_is_fixed_while_running(admission):
    new, _ = moved()
    assert admission.refusal(new | {"spec": new["spec"] | {"suspend": False}}, job()).startswith(
        "spec.template: Invalid value"
    )


@pytest.mark.parametrize(
    "status", [{}, {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}]
)
def test_placement_may_change_while_at_rest(admission, status):
    assert admission.refusal(*moved(**status)) == ""


def test_placement_may_not_change_while_pods_still_run(admission):
    assert admission.refusal(*moved(active=1)) != ""


def test_command_may_not_change_while_at_rest(admission):
    pod_spec = {"restartPolicy": "Never", "containers": [CONTAINER | {"command": ["x"]}]}
    assert admission.refusal(job(template={"spec": pod_spec}, suspend=True), job(suspend=True)) != ""


def test_gates_may_be_removed_but_not_added(admission):
    gated = pod(schedulingGates=[{"name": "a.io/gate"}])
    assert admission.refusal(pod(nodeSelector={"pool": "gpu"}), gated) == ""
    assert "found new scheduling gate 'a.io/gate'" in admission.refusal(gated, pod())


def test_command_of_a_pod_is_fixed(admission):
    assert "pod updates may not change fields" in admission.refusal(
        pod(containers=[CONTAINER | {"args": ["x"]}]), pod()
    )


def deployment(labels, **spec):
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ns"}, "spec": spec}


def test_selector_must_match_the_template(admission):
    assert admission.refusal(deployment({"app": "b"})) == (
        'spec.template.metadata.labels: Invalid value: {"app":"b"}: `selector` does not match template `labels`'
    )


def test_selector_is_immutable(admission):
    new = deployment({"app": "a", "x": "y"}, selector={"matchLabels": {"x": "y"}})
    assert admission.refusal(new, deployment({"app": "a"})) == (
        'spec.selector: Invalid value: {"matchLabels":{"x":"y"}}: field is immutable'
    )


def test_schedule_of_a_cron_job_has_five_fields(admission):
    spec = {"schedule": "often", "jobTemplate": {"spec": job()["spec"]}}
    cron_job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}
    assert admission.refusal(cron_job) == (
        'spec.schedule: Invalid value: "often": expected exactly 5 fields, found 1: [often]'
    )


def test_service_needs_ports(admission):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    assert admission.refusal(service) == "spec.ports: Required value"


def test_plain_text_of_a_secret_is_stored_encoded(admission):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    stored = admission.stored(secret)
    assert (stored["data"], "stringData" in stored) == ({"a": "Yg=="}, False)


def test_allocatable_of_a_node_is_its_capacity_by_default(admission):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": 4}}}
    assert admission.stored(node)["status"] == {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
