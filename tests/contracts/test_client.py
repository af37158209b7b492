"""What every client promises, whatever lies between it and the API."""

import asyncio
from contextlib import suppress

import pytest

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Resource
from pykueue.kube.client import DeleteOptions, ListOptions, PatchType, WriteOptions

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
WIDGETS = Resource("example.dev", "v1", "widgets", "Widget", namespaced=True)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
NEW_EVENTS = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)


def named(name, **rest):
    return {"metadata": {"name": name, "namespace": "default", **rest.pop("metadata", {})}, **rest}


CONTAINERS = [{"name": "c", "image": "i"}]


def pod(name, *, spec=None, **metadata):
    return named(name, metadata=metadata, spec={"containers": CONTAINERS, **(spec or {})})


async def refused(awaitable):
    with pytest.raises(ApiError) as refusal:
        await awaitable
    return refusal.value


async def widget(client, name="w", **spec):
    return await client.create(WIDGETS, named(name, spec=spec))


# Create and get


async def test_create_fills_in_what_the_server_decides(client):
    created = await widget(client, size=1)
    assert {"uid", "creationTimestamp", "resourceVersion"} <= set(created["metadata"])
    assert (created["kind"], created["apiVersion"], created["metadata"]["generation"]) == (
        "Widget",
        "example.dev/v1",
        1,
    )


async def test_get_returns_what_was_created(client):
    created = await widget(client, size=1)
    assert await client.get(WIDGETS, "w", "default") == created


async def test_create_leaves_the_callers_object_alone(client):
    obj = named("w", spec={"size": 1})
    await client.create(WIDGETS, obj)
    assert obj == named("w", spec={"size": 1})


async def test_absent_object(client):
    error = await refused(client.get(WIDGETS, "w", "default"))
    assert (error.code, error.reason, error.message) == (404, "NotFound", 'widgets.example.dev "w" not found')
    assert error.details == {"name": "w", "group": "example.dev", "kind": "widgets"}


async def test_second_creation_of_a_name(client):
    await widget(client)
    error = await refused(widget(client))
    assert (error.code, error.reason, error.message) == (
        409,
        "AlreadyExists",
        'widgets.example.dev "w" already exists',
    )


async def test_generated_names_differ(client):
    names = {
        (await client.create(CONFIG_MAPS, {"metadata": {"generateName": "p-"}}, "default"))["metadata"]["name"]
        for _ in range(5)
    }
    assert len(names) == 5
    assert all(name.startswith("p-") and len(name) == 7 for name in names)


async def test_an_object_needs_a_name(client):
    error = await refused(client.create(CONFIG_MAPS, {"metadata": {}}, "default"))
    assert error.message == 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'


async def test_a_name_must_be_a_domain_name(client):
    error = await refused(widget(client, "Bad_Name"))
    assert error.code == 422
    assert error.message.startswith(
        'Widget.example.dev "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain'
    )


async def test_create_in_a_missing_namespace(client):
    error = await refused(client.create(PODS, {"metadata": {"name": "p"}}, "nowhere"))
    assert (error.code, error.message) == (404, 'namespaces "nowhere" not found')


async def test_namespaces_must_agree(client):
    error = await refused(client.create(PODS, named("p", metadata={"namespace": "other"}), "default"))
    assert error.message == "the namespace of the provided object does not match the namespace sent on the request"


async def test_a_dry_run_changes_nothing(client):
    options = WriteOptions(dry_run=True)
    assert (await client.create(WIDGETS, named("w"), options=options))["metadata"]["uid"]
    assert (await refused(client.get(WIDGETS, "w", "default"))).code == 404


async def test_status_is_not_set_by_create(client):
    created = await client.create(WIDGETS, named("w", spec={}, status={"phase": "Ready"}))
    assert "status" not in created


async def test_metadata_of_the_wrong_type(client):
    error = await refused(client.create(WIDGETS, named("w", metadata={"labels": {"a": 1}})))
    assert (error.code, error.reason) == (400, "BadRequest")
    assert error.message == (
        'Widget in version "v1" cannot be handled as a Widget: '
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    )


async def test_strict_field_validation_refuses_unknown_metadata(client):
    options = WriteOptions(field_validation="Strict")
    error = await refused(client.create(WIDGETS, named("w", metadata={"label": {}}), options=options))
    assert error.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "metadata.label"'
    )


async def test_an_object_may_not_be_too_large(client):
    error = await refused(widget(client, notes={"a": "x" * 1_600_000}))
    assert error.code in (413, 500)  # a real cluster passes on what etcd says


# Update


async def test_update_with_an_old_version_is_a_conflict(client):
    first = await widget(client, size=1)
    await client.update(WIDGETS, {**first, "spec": {"size": 2}})
    error = await refused(client.update(WIDGETS, {**first, "spec": {"size": 3}}))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Operation cannot be fulfilled on widgets.example.dev "w": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_a_custom_resource_is_not_replaced_blindly(client):
    await widget(client)
    error = await refused(client.update(WIDGETS, named("w", spec={})))
    assert error.message == (
        'widgets.example.dev "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update'
    )


async def test_an_update_that_changes_nothing_makes_no_version(client):
    created = await widget(client, size=1)
    assert await client.update(WIDGETS, created) == created


async def test_generation_follows_the_spec(client):
    created = await widget(client, size=1)
    changed = await client.update(WIDGETS, {**created, "spec": {"size": 2}})
    assert changed["metadata"]["generation"] == 2


async def test_generation_ignores_labels_and_status(client):
    await widget(client, size=1)
    await client.patch(WIDGETS, "w", "default", {"metadata": {"labels": {"a": "b"}}})
    patched = await client.patch(WIDGETS, "w", "default", {"status": {"phase": "Ready"}}, subresource="status")
    assert patched["metadata"]["generation"] == 1


async def test_update_of_the_object_leaves_the_status(client):
    await widget(client, size=1)
    current = await client.patch(WIDGETS, "w", "default", {"status": {"phase": "Ready"}}, subresource="status")
    changed = await client.update(WIDGETS, {**current, "spec": {"size": 2}, "status": {"phase": "Lost"}})
    assert (changed["spec"], changed["status"]) == ({"size": 2}, {"phase": "Ready"})


async def test_update_of_the_status_leaves_the_object(client):
    created = await widget(client, size=1)
    labelled = {**created["metadata"], "labels": {"a": "b"}}
    new = {**created, "metadata": labelled, "spec": {"size": 2}, "status": {"phase": "Ready"}}
    changed = await client.update(WIDGETS, new, subresource="status")
    assert (changed["spec"], changed["status"], changed["metadata"].get("labels")) == (
        {"size": 1},
        {"phase": "Ready"},
        None,
    )


async def test_identity_cannot_be_changed(client):
    created = await widget(client, size=1)
    error = await refused(client.update(WIDGETS, {**created, "metadata": {**created["metadata"], "uid": "other"}}))
    assert error.code == 409
    assert "Precondition failed: UID in precondition: other" in error.message


async def test_update_of_an_absent_object(client):
    assert (await refused(client.update(WIDGETS, named("w", metadata={"resourceVersion": "1"})))).code == 404


async def test_scale(client):
    await widget(client, replicas=2)
    path = WIDGETS.path("default", "w", "scale")
    scale = await client.raw("GET", path)
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 2})
    await client.raw("PUT", path, {**scale, "spec": {"replicas": 5}})
    assert (await client.get(WIDGETS, "w", "default"))["spec"]["replicas"] == 5


# Patch


async def test_merge_patch(client):
    await widget(client, size=1, notes={"a": "1", "b": "2"})
    patched = await client.patch(WIDGETS, "w", "default", {"spec": {"notes": {"a": None, "c": "3"}}})
    assert patched["spec"] == {"size": 1, "notes": {"b": "2", "c": "3"}}


async def test_json_patch(client):
    await widget(client, steps=["a", "b"])
    operations = [
        {"op": "test", "path": "/spec/steps/0", "value": "a"},
        {"op": "add", "path": "/spec/steps/-", "value": "c"},
    ]
    patched = await client.patch(WIDGETS, "w", "default", operations, patch_type=PatchType.JSON)
    assert patched["spec"]["steps"] == ["a", "b", "c"]


async def test_json_patch_whose_test_fails(client):
    await widget(client, size=1)
    operations = [{"op": "test", "path": "/spec/size", "value": 2}]
    error = await refused(client.patch(WIDGETS, "w", "default", operations, patch_type=PatchType.JSON))
    assert (error.code, error.message) == (
        422,
        "the server rejected our request due to an error in our request",
    )


async def test_strategic_merge_patch_merges_lists_by_key(client):
    containers = [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]
    await client.create(PODS, named("p", spec={"containers": containers}))
    patch = {"spec": {"containers": [{"name": "b", "image": "z"}]}}
    patched = await client.patch(PODS, "p", "default", patch, patch_type=PatchType.STRATEGIC)
    assert [container["image"] for container in patched["spec"]["containers"]] == ["x", "z"]


async def test_strategic_merge_patch_is_not_for_custom_resources(client):
    await widget(client)
    error = await refused(client.patch(WIDGETS, "w", "default", {}, patch_type=PatchType.STRATEGIC))
    assert (error.code, error.reason) == (415, "UnsupportedMediaType")


async def test_patch_with_a_version_is_conditional(client):
    await widget(client, size=1)
    patch = {"metadata": {"resourceVersion": "1"}, "spec": {"size": 2}}
    assert (await refused(client.patch(WIDGETS, "w", "default", patch))).code == 409


def applying(manager, **options):
    return {
        "patch_type": PatchType.APPLY,
        "options": WriteOptions(field_manager=manager, **options),
    }


def configuration(**spec):
    return {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


async def test_apply_creates(client):
    applied = await client.patch(WIDGETS, "w", "default", configuration(size=1), **applying("a"))
    assert applied["spec"] == {"size": 1}
    entry = applied["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["operation"], entry["fieldsV1"]) == ("a", "Apply", {"f:spec": {"f:size": {}}})


async def test_applying_again_makes_no_version(client):
    first = await client.patch(WIDGETS, "w", "default", configuration(size=1), **applying("a"))
    assert await client.patch(WIDGETS, "w", "default", configuration(size=1), **applying("a")) == first


async def test_apply_removes_what_is_no_longer_applied(client):
    await client.patch(WIDGETS, "w", "default", configuration(size=1, tags=["x", "y"]), **applying("a"))
    applied = await client.patch(WIDGETS, "w", "default", configuration(tags=["y"]), **applying("a"))
    assert applied["spec"] == {"tags": ["y"]}


async def test_apply_refuses_what_others_own(client):
    await client.patch(WIDGETS, "w", "default", configuration(size=1), **applying("a"))
    error = await refused(client.patch(WIDGETS, "w", "default", configuration(size=2), **applying("b")))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "a": .spec.size'
    assert error.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".spec.size"}
    ]


async def test_apply_takes_over_by_force(client):
    await client.patch(WIDGETS, "w", "default", configuration(size=1), **applying("a"))
    applied = await client.patch(WIDGETS, "w", "default", configuration(size=2), **applying("b", force=True))
    assert applied["spec"]["size"] == 2
    assert [entry["manager"] for entry in applied["metadata"]["managedFields"]] == ["b"]


async def test_apply_shares_what_is_equal(client):
    await client.patch(WIDGETS, "w", "default", configuration(size=1), **applying("a"))
    applied = await client.patch(WIDGETS, "w", "default", configuration(size=1), **applying("b"))
    assert [(entry["manager"], "time" in entry) for entry in applied["metadata"]["managedFields"]] == [
        ("b", False),
        ("a", True),
    ]


async def test_apply_merges_keyed_lists(client):
    await client.patch(WIDGETS, "w", "default", configuration(parts=[{"name": "x", "count": 1}]), **applying("a"))
    applied = await client.patch(
        WIDGETS, "w", "default", configuration(parts=[{"name": "y", "count": 2}]), **applying("b")
    )
    assert applied["spec"]["parts"] == [{"name": "x", "count": 1}, {"name": "y", "count": 2}]


async def test_update_conflicts_are_worded_with_their_version(client):
    await client.create(WIDGETS, named("w", spec={"size": 1}), options=WriteOptions(field_manager="editor"))
    error = await refused(client.patch(WIDGETS, "w", "default", configuration(size=2), **applying("b")))
    assert error.message == 'Apply failed with 1 conflict: conflict with "editor" using example.dev/v1: .spec.size'


async def test_apply_needs_a_manager(client):
    error = await refused(client.patch(WIDGETS, "w", "default", configuration(), **applying("")))
    assert error.message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


# Lists


async def test_list_selects_by_label_and_field(client):
    for name, app in [("a", "web"), ("b", "web"), ("c", "db")]:
        await client.create(PODS, pod(name, labels={"app": app}))
    options = ListOptions(label_selector="app=web", field_selector="metadata.name!=a")
    assert [pod["metadata"]["name"] for pod in (await client.list(PODS, "default", options)).items] == ["b"]


async def test_list_in_pages_is_one_consistent_list(client):
    for name in "abcd":
        await widget(client, name)
    first = await client.list(WIDGETS, "default", ListOptions(limit=2))
    await client.delete(WIDGETS, "d", "default")
    await widget(client, "bb")
    second = await client.list(WIDGETS, "default", ListOptions(limit=2, continue_token=first.continue_token))
    assert [obj["metadata"]["name"] for obj in [*first.items, *second.items]] == ["a", "b", "c", "d"]
    assert (second.resource_version, second.continue_token) == (first.resource_version, "")


async def test_list_of_all_namespaces(client):
    with suppress(ApiError):
        await client.create(NAMESPACES, {"metadata": {"name": "other"}})
    with suppress(ApiError):
        await client.delete(LEASES, "a", "other")
    await client.create(LEASES, {"metadata": {"name": "a"}}, "other")
    await client.create(LEASES, {"metadata": {"name": "b"}}, "default")
    names = [lease["metadata"]["name"] for lease in (await client.list(LEASES)).items]
    assert [name for name in names if name in ("a", "b")] == ["b", "a"]


async def test_an_unknown_field_cannot_be_selected(client):
    error = await refused(client.list(PODS, "default", ListOptions(field_selector="spec.nothing=1")))
    assert (error.code, error.message) == (400, "field label not supported: spec.nothing")


async def test_a_version_of_the_future(client):
    error = await refused(client.list(PODS, "default", ListOptions(resource_version="1000000")))
    assert (error.code, error.reason) == (504, "Timeout")


# Watch


async def collect(events, count):
    changes = []
    async with asyncio.timeout(10):
        async for event in events:
            if event.type == "BOOKMARK":
                continue
            changes.append((event.type, event.object["metadata"]["name"]))
            if len(changes) == count:
                break
    await events.aclose()
    return changes


async def test_watch_from_a_version_has_no_gap_and_no_repeat(client):
    await widget(client, "before")
    version = (await client.list(WIDGETS, "default")).resource_version
    await widget(client, "a")
    await client.patch(WIDGETS, "a", "default", {"spec": {"size": 1}})
    await client.delete(WIDGETS, "a", "default")
    events = client.watch(WIDGETS, "default", resource_version=version)
    assert await collect(events, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_watch_without_a_version_begins_with_what_is_there(client):
    await widget(client, "a")
    events = client.watch(WIDGETS, "default")
    assert await collect(events, 1) == [("ADDED", "a")]


async def test_watch_shows_what_enters_and_leaves_a_selection(client):
    await widget(client, "a")
    version = (await client.list(WIDGETS, "default")).resource_version
    for label in ("in", "in too", None):
        patch = {"metadata": {"labels": {"x": label and "in"}, "annotations": {"n": label}}}
        await client.patch(WIDGETS, "a", "default", patch)
    events = client.watch(WIDGETS, "default", resource_version=version, label_selector="x=in")
    assert await collect(events, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_live_events_arrive(client):
    events = client.watch(WIDGETS, "default")
    reading = asyncio.create_task(collect(events, 2))
    await widget(client, "a")
    await widget(client, "b")
    assert await reading == [("ADDED", "a"), ("ADDED", "b")]


# Delete


async def test_delete(client):
    await widget(client)
    await client.delete(WIDGETS, "w", "default")
    assert (await refused(client.get(WIDGETS, "w", "default"))).code == 404


async def test_finalizers_hold_an_object(client):
    await client.create(WIDGETS, named("w", metadata={"finalizers": ["example.dev/hold"]}))
    await client.delete(WIDGETS, "w", "default")
    assert (await client.get(WIDGETS, "w", "default"))["metadata"]["deletionTimestamp"]
    await client.patch(WIDGETS, "w", "default", {"metadata": {"finalizers": None}})
    assert (await refused(client.get(WIDGETS, "w", "default"))).code == 404


async def test_a_name_is_taken_until_its_holder_is_gone(client):
    await client.create(WIDGETS, named("w", metadata={"finalizers": ["example.dev/hold"]}))
    await client.delete(WIDGETS, "w", "default")
    error = await refused(widget(client))
    assert error.message == 'object is being deleted: widgets.example.dev "w" already exists'


async def test_no_finalizer_is_added_to_what_is_being_deleted(client):
    await client.create(WIDGETS, named("w", metadata={"finalizers": ["example.dev/hold"]}))
    await client.delete(WIDGETS, "w", "default")
    patch = {"metadata": {"finalizers": ["example.dev/hold", "example.dev/more"]}}
    error = await refused(client.patch(WIDGETS, "w", "default", patch))
    assert "no new finalizers can be added if the object is being deleted" in error.message


async def test_delete_preconditions(client):
    await widget(client)
    error = await refused(client.delete(WIDGETS, "w", "default", DeleteOptions(preconditions={"uid": "someone-else"})))
    assert error.code == 409


async def test_a_running_pod_is_given_its_grace_period(client):
    await client.create(PODS, pod("p", spec={"nodeName": "n", "terminationGracePeriodSeconds": 7}))
    await client.delete(PODS, "p", "default")
    assert (await client.get(PODS, "p", "default"))["metadata"]["deletionGracePeriodSeconds"] == 7
    await client.delete(PODS, "p", "default", DeleteOptions(grace_period_seconds=0))
    assert (await refused(client.get(PODS, "p", "default"))).code == 404


async def test_a_pod_without_a_node_goes_at_once(client):
    await client.create(PODS, pod("p"))
    await client.delete(PODS, "p", "default")
    assert (await refused(client.get(PODS, "p", "default"))).code == 404


# Events


async def test_events_have_two_faces(client):
    event = {
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "hello",
        "reason": "Greeting",
        "action": "Greet",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.dev/me",
        "reportingInstance": "me-1",
    }
    await client.create(NEW_EVENTS, named("e", **event))
    old = await client.get(EVENTS, "e", "default")
    assert (old["involvedObject"], old["message"], old["reportingComponent"]) == (
        {"kind": "Pod", "name": "p", "namespace": "default"},
        "hello",
        "example.dev/me",
    )
    assert (await client.get(NEW_EVENTS, "e", "default"))["note"] == "hello"
