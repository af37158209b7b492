"""What a user does with kubectl, over real HTTPS."""

import json
import re

import pytest
from tests.e2e.external_cluster import embedded


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name, replicas=2):
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    }


def owned(name, owner):
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
        "controller": True,
    }
    return config_map(name) | {"metadata": {"name": name, "ownerReferences": [reference]}}


CLUSTER_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "spec": {
        "cohortName": "team",
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": 9}]}],
            }
        ],
    },
}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("yaml", "apiVersion: v1"),
        ("json", '"kind": "ConfigMap"'),
        ("name", "configmap/it"),
        ("wide", "NAME   DATA   AGE"),
        ("jsonpath={.data.a}", "1"),
        ("go-template={{.metadata.name}}", "it"),
        ("custom-columns=WHO:.metadata.name", "WHO\nit"),
    ],
)
def test_get_prints_every_format(kubectl, output, expected):
    kubectl.apply(config_map("it", a="1"))
    assert expected in kubectl("get", "configmap", "it", "-o", output)


def test_get_follows_changes(kubectl):
    kubectl.apply(config_map("it", a="1"))
    with kubectl.popen("get", "configmap", "-w", "--field-selector", "metadata.name=it", "--no-headers") as watch:
        first = watch.stdout.readline()
        kubectl("patch", "configmap", "it", "-p", '{"data":{"b":"2"}}')
        second = watch.stdout.readline()
        kubectl("delete", "configmap", "it")
        third = watch.stdout.readline()
        watch.terminate()
    assert [line.split()[:2] for line in (first, second, third)] == [["it", "1"], ["it", "2"], ["it", "2"]]


def test_labels_select(kubectl):
    kubectl.apply(config_map("a"), config_map("b"))
    kubectl("label", "configmap", "a", "team=ml")
    assert kubectl("get", "configmap", "-l", "team in (ml)", "-o", "name") == "configmap/a\n"


def test_a_label_is_added_changed_and_removed(kubectl):
    kubectl.apply(config_map("it"))
    kubectl("label", "configmap", "it", "a=1")
    assert "already has a value" in kubectl.fails("label", "configmap", "it", "a=2")
    kubectl("label", "configmap", "it", "a=2", "--overwrite")
    assert kubectl.json("get", "configmap", "it")["metadata"]["labels"] == {"a": "2"}
    kubectl("label", "configmap", "it", "a-")
    assert "labels" not in kubectl.json("get", "configmap", "it")["metadata"]


def test_annotate(kubectl):
    kubectl.apply(config_map("it"))
    kubectl("annotate", "configmap", "it", "note=hello")
    assert kubectl.json("get", "configmap", "it")["metadata"]["annotations"]["note"] == "hello"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("json", '[{"op":"replace","path":"/data/a","value":"2"}]'),
        ("merge", '{"data":{"a":"2"}}'),
        ("strategic", '{"data":{"a":"2"}}'),
    ],
)
def test_patch_of_three_types(kubectl, kind, patch):
    kubectl.apply(config_map("it", a="1"))
    kubectl("patch", "configmap", "it", "--type", kind, "-p", patch)
    assert kubectl.json("get", "configmap", "it")["data"] == {"a": "2"}


def test_a_strategic_patch_merges_containers_by_name(kubectl):
    kubectl.apply(deployment("web"))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "b"}]}}}}
    kubectl("patch", "deployment", "web", "-p", json.dumps(patch))
    names = kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[*].name}")
    assert sorted(names.split()) == ["c", "side"]


def test_apply_creates_then_changes_nothing_then_configures(kubectl):
    assert kubectl.apply(config_map("it", a="1")) == "configmap/it created\n"
    assert kubectl.apply(config_map("it", a="1")) == "configmap/it unchanged\n"
    assert kubectl.apply(config_map("it", b="2")) == "configmap/it configured\n"
    assert kubectl.json("get", "configmap", "it")["data"] == {"b": "2"}


def test_server_side_apply_names_the_manager_of_a_conflict(kubectl):
    server_side = ("--server-side", "--field-manager")
    kubectl.apply(config_map("it", a="1"), options=(*server_side, "one"))
    done = kubectl.run("apply", *server_side, "two", "-f", "-", stdin=json.dumps(config_map("it", a="2")))
    assert 'conflict with "one": .data.a' in done.stderr
    kubectl.apply(config_map("it", a="2"), options=(*server_side, "two", "--force-conflicts"))
    assert kubectl.json("get", "configmap", "it")["data"] == {"a": "2"}


def test_server_side_apply_removes_what_is_no_longer_applied(kubectl):
    kubectl.apply(config_map("it", a="1", b="2"), options=("--server-side",))
    kubectl.apply(config_map("it", a="1"), options=("--server-side",))
    assert kubectl.json("get", "configmap", "it")["data"] == {"a": "1"}


def test_client_side_apply_may_become_server_side(kubectl):
    kubectl.apply(deployment("web"))
    done = kubectl.run("apply", "--server-side", "-f", "-", stdin=json.dumps(deployment("web", replicas=3)))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_field_that_somebody_else_took_over_still_conflicts(kubectl):
    kubectl.apply(config_map("it", a="1"))
    kubectl("patch", "configmap", "it", "--field-manager=other", "-p", '{"data":{"a":"2"}}')
    refusal = kubectl.fails("apply", "--server-side", "-f", "-", stdin=json.dumps(config_map("it", a="3")))
    assert 'conflict with "other"' in refusal


def test_diff_shows_the_change(kubectl):
    kubectl.apply(config_map("it", a="1"))
    done = kubectl.run("diff", "-f", "-", stdin=json.dumps(config_map("it", a="2")))
    assert (done.returncode, '+  a: "2"' in done.stdout) == (1, True)


def test_edit_with_a_scripted_editor(kubectl, tmp_path):
    kubectl.apply(config_map("it", a="before"))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/before/after/ "$1"\n')
    editor.chmod(0o755)
    kubectl("edit", "configmap", "it", environment={"KUBE_EDITOR": str(editor)})
    assert kubectl.json("get", "configmap", "it")["data"] == {"a": "after"}


def test_replace_of_an_old_version_conflicts(kubectl):
    kubectl.apply(config_map("it", a="1"))
    old = kubectl.json("get", "configmap", "it")
    kubectl("patch", "configmap", "it", "-p", '{"data":{"a":"2"}}')
    refusal = kubectl.fails("replace", "-f", "-", stdin=json.dumps(old))
    assert "the object has been modified; please apply your changes to the latest version and try again" in refusal


def test_scale(kubectl):
    kubectl.apply(deployment("web"))
    kubectl("scale", "deployment", "web", "--replicas=5")
    assert kubectl.json("get", "deployment", "web")["spec"]["replicas"] == 5


def test_create_refuses_what_exists(kubectl):
    kubectl("create", "configmap", "it")
    assert kubectl.fails("create", "configmap", "it") == (
        'error: failed to create configmap: configmaps "it" already exists\n'
    )


def test_create_with_generate_name(kubectl):
    named = config_map("") | {"metadata": {"generateName": "run-"}}
    assert re.fullmatch(r"configmap/run-[a-z0-9]{5} created\n", kubectl("create", "-f", "-", stdin=json.dumps(named)))


def test_create_of_common_kinds(kubectl):
    kubectl("create", "job", "hello", "--image=busybox", "--", "echo", "hi")
    kubectl("create", "secret", "generic", "s", "--from-literal=k=v")
    kubectl("create", "deployment", "web", "--image=nginx")
    kubectl("create", "serviceaccount", "bot")
    kubectl("create", "role", "reader", "--verb=get", "--resource=pods")
    kubectl("create", "rolebinding", "b", "--role=reader", "--serviceaccount=default:bot")
    kubectl("create", "quota", "q", "--hard=pods=3")
    kubectl("run", "pod", "--image=busybox", "--", "sleep", "1")
    job = kubectl.json("get", "job", "hello")
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["echo", "hi"]


def test_a_dry_run_leaves_nothing(kubectl):
    kubectl("create", "configmap", "it", "--dry-run=server")
    assert kubectl.fails("get", "configmap", "it") == 'Error from server (NotFound): configmaps "it" not found\n'


def test_an_unknown_field_is_refused_when_strict(kubectl):
    queue = CLUSTER_QUEUE | {"metadata": {"name": "strict"}, "spec": {**CLUSTER_QUEUE["spec"], "cohrt": "x"}}
    assert 'unknown field "spec.cohrt"' in kubectl.fails("apply", "-f", "-", stdin=json.dumps(queue))


def test_an_unknown_field_is_warned_of(kubectl):
    queue = CLUSTER_QUEUE | {"metadata": {"name": "lenient"}, "spec": {**CLUSTER_QUEUE["spec"], "cohrt": "x"}}
    done = kubectl.run("apply", "--validate=warn", "-f", "-", stdin=json.dumps(queue))
    assert done.stderr == 'Warning: unknown field "spec.cohrt"\n'


@pytest.mark.parametrize(
    ("cascade", "survivors"), [("background", ""), ("foreground", ""), ("orphan", "configmap/child\n")]
)
def test_delete_cascades(kubectl, cascade, survivors):
    kubectl.apply(config_map("owner"))
    kubectl.apply(owned("child", kubectl.json("get", "configmap", "owner")))
    kubectl("delete", "configmap", "owner", f"--cascade={cascade}")
    if not survivors:
        kubectl("wait", "--for=delete", "configmap/child", "--timeout=20s")
    assert kubectl("get", "configmap", "--field-selector=metadata.name=child", "-o", "name") == survivors


def test_delete_of_what_is_absent_may_be_ignored(kubectl):
    assert "not found" in kubectl.fails("delete", "configmap", "ghost")
    kubectl("delete", "configmap", "ghost", "--ignore-not-found")


def test_delete_all_of_a_kind(kubectl):
    kubectl.apply(config_map("a"), config_map("b"))
    kubectl("delete", "configmap", "--all")
    assert (
        kubectl("get", "configmap", "-l", "x!=y", "--field-selector=metadata.name!=kube-root-ca.crt", "-o", "name")
        == ""
    )


def test_a_namespace_goes_with_what_is_in_it(kubectl):
    kubectl.apply(config_map("it"))
    kubectl("delete", "namespace", kubectl.namespace)
    assert "not found" in kubectl.fails("get", "configmap", "it")


def test_wait_for_a_condition(kubectl):
    container = {"name": "main", "image": "busybox"}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}, "spec": {"containers": [container]}})
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    with kubectl.popen("wait", "--for=condition=Ready", "pod/it", "--timeout=20s") as waiting:
        kubectl("patch", "pod", "it", "--subresource=status", "--type=merge", "-p", json.dumps(status))
        assert waiting.stdout.read() == "pod/it condition met\n"


def test_wait_for_a_value(kubectl):
    kubectl.apply(config_map("it", a="1"))
    assert "condition met" in kubectl("wait", "--for=jsonpath={.data.a}=1", "configmap/it", "--timeout=20s")


def test_events_are_listed_and_described(kubectl):
    kubectl.apply(config_map("it"))
    uid = kubectl.json("get", "configmap", "it")["metadata"]["uid"]
    regarding = {"apiVersion": "v1", "kind": "ConfigMap", "name": "it", "namespace": kubectl.namespace, "uid": uid}
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "it.1"},
        "regarding": regarding,
        "reason": "Changed",
        "note": "something happened",
        "type": "Normal",
        "action": "Change",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "test",
        "reportingInstance": "test-1",
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))
    assert "something happened" in kubectl("events", "--for", "configmap/it")
    assert "something happened" in kubectl("get", "events")
    assert "something happened" in kubectl("describe", "configmap", "it")


@pytest.mark.parametrize("kind", ["namespace/default", "clusterrole/view", "serviceaccount/default"])
def test_describe(kubectl, kind):
    assert kubectl("describe", kind).split()[:2] == ["Name:", kind.partition("/")[2]]


def test_describe_a_cluster_queue(kubectl):
    kubectl.apply(CLUSTER_QUEUE | {"metadata": {"name": "described"}})
    assert "Cohort Name:" in kubectl("describe", "clusterqueue", "described")


def test_explain(kubectl):
    assert "nominalQuota" in kubectl("explain", "clusterqueue.spec.resourceGroups.flavors.resources")


def test_explain_metadata(kubectl):
    assert "ownerReferences" in kubectl("explain", "workload.metadata")


def test_api_resources_lists_short_names(kubectl):
    listed = kubectl("api-resources", "--api-group=kueue.x-k8s.io")
    assert re.search(r"clusterqueues +cq +kueue.x-k8s.io/v1beta2 +false +ClusterQueue", listed)


def test_short_names_and_categories_find_kinds(kubectl):
    kubectl.apply(CLUSTER_QUEUE | {"metadata": {"name": "short"}})
    assert kubectl("get", "cq", "short", "-o", "name") == "clusterqueue.kueue.x-k8s.io/short\n"


def test_get_all_finds_the_kinds_of_its_category(kubectl):
    kubectl.apply(deployment("web"))
    assert "deployment.apps/web" in kubectl("get", "all")


def test_api_versions(kubectl):
    versions = kubectl("api-versions").split()
    assert {"v1", "batch/v1", "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"} <= set(versions)


def test_cluster_info_and_version(kubectl):
    assert "Server Version: v1.36" in kubectl("version")
    assert "is running at" in kubectl("cluster-info")


def test_raw_requests(kubectl):
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert "[+]ping ok" in kubectl("get", "--raw", "/readyz?verbose")


@embedded("a real one has kubelets")
def test_exec_and_logs_are_refused_in_plain_words(kubectl):
    kubectl("run", "pod", "--image=busybox")
    assert "exec is not supported" in kubectl.fails("exec", "pod", "--", "ls")
    assert "without a pod runtime" in kubectl.fails("logs", "pod")
