"""The conditions of MultiKueueClusters and AdmissionChecks are those of Kueue."""

import base64

import pytest
import yaml
from tests.multikueue.fleet import kubeconfig, kubeconfig_secret, play

from pykueue.api import conditions, resources


async def active(fleet, resource, name):
    condition = conditions.find(await fleet.manager.client.get(resource, name), "Active") or {}
    return condition.get("status"), condition.get("reason"), condition.get("message")


async def becomes(fleet, resource, name, state):
    async def is_so():
        return await active(fleet, resource, name) == state

    try:
        await fleet.until(is_so)
    except AssertionError:
        assert await active(fleet, resource, name) == state


def changed(*path, value):
    """The kubeconfig of worker1 with one changed field."""
    document = kubeconfig("worker1")
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


CLUSTER, USER = ("clusters", 0, "cluster"), ("users", 0, "user")
INSECURE = [
    (
        (*CLUSTER, "insecure-skip-tls-verify"),
        True,
        "insecure TLS verification is not allowed for cluster default-cluster",
    ),
    (
        (*CLUSTER, "certificate-authority"),
        "/etc/ca",
        "certificate-authority file paths are not allowed, use certificate-authority-data for cluster default-cluster",
    ),
    ((*CLUSTER, "server"), "", "server URL is required for cluster default-cluster"),
    ((*CLUSTER, "server"), "https://bad_host", "untrusted server endpoint"),
    ((*USER, "tokenFile"), "/etc/token", "tokenFile is not allowed"),
    ((*USER, "username"), "me", "basic auth is not allowed"),
    ((*USER, "exec"), {"command": "sh"}, "exec plugins are not allowed"),
    ((*USER, "auth-provider"), {"name": "gcp"}, "auth providers are not allowed"),
]


def test_a_kubeconfig_with_files_plugins_or_passwords_is_refused():
    async def story(fleet):
        client = fleet.manager.client
        for path, value, message in INSECURE:
            secret = kubeconfig_secret("worker1", changed(*path, value=value))
            await client.patch(resources.SECRET, "worker1-secret", "kueue-system", {"data": secret["data"]})
            state = ("False", "InsecureKubeConfig", f"load client config failed: {message}")
            await becomes(fleet, resources.MULTI_KUEUE_CLUSTER, "worker1", state)
        await client.patch(
            resources.SECRET, "worker1-secret", "kueue-system", {"data": kubeconfig_secret("worker1")["data"]}
        )
        await becomes(fleet, resources.MULTI_KUEUE_CLUSTER, "worker1", ("True", "Active", "Connected"))

    play(story)


def test_a_secret_that_is_missing_or_has_no_kubeconfig_is_named():
    async def story(fleet):
        client = fleet.manager.client
        await client.delete(resources.SECRET, "worker1-secret", "kueue-system")
        message = 'load client config failed: Secret "worker1-secret" not found'
        await becomes(fleet, resources.MULTI_KUEUE_CLUSTER, "worker1", ("False", "BadKubeConfig", message))
        await becomes(
            fleet,
            resources.ADMISSION_CHECK,
            "multikueue",
            ("True", "SomeActiveClusters", "Inactive clusters: [worker1]"),
        )
        other = {"metadata": {"name": "worker1-secret"}, "data": {"other": base64.b64encode(b"x").decode()}}
        await client.create(resources.SECRET, other, "kueue-system")
        message = 'load client config failed: key "kubeconfig" not found in secret "worker1-secret"'
        await becomes(fleet, resources.MULTI_KUEUE_CLUSTER, "worker1", ("False", "BadKubeConfig", message))

    play(story)


def test_a_kubeconfig_may_be_in_a_file_that_changes():
    async def story(fleet):
        path = fleet.directory / "kubeconfig"
        source = {"kubeConfig": {"location": str(path), "locationType": "Path"}}
        await fleet.manager.client.create(
            resources.MULTI_KUEUE_CLUSTER, {"metadata": {"name": "file"}, "spec": {"clusterSource": source}}
        )
        message = f"load client config failed: open {path}: no such file or directory"
        await becomes(fleet, resources.MULTI_KUEUE_CLUSTER, "file", ("False", "BadKubeConfig", message))
        path.write_text(yaml.safe_dump(kubeconfig("worker1")))
        await becomes(fleet, resources.MULTI_KUEUE_CLUSTER, "file", ("True", "Active", "Connected"))

    play(story)


def test_paths_outside_the_directory_are_refused_with_the_gate():
    async def story(fleet):
        source = {"kubeConfig": {"location": "/etc/shadow", "locationType": "Path"}}
        await fleet.manager.client.create(
            resources.MULTI_KUEUE_CLUSTER, {"metadata": {"name": "file"}, "spec": {"clusterSource": source}}
        )
        message = (
            "load client config failed: kubeconfig path is not under the allowed prefix: "
            '"/etc/shadow" is not under "/etc/multikueue/kubeconfigs"'
        )
        await becomes(fleet, resources.MULTI_KUEUE_CLUSTER, "file", ("False", "BadKubeConfig", message))

    play(story, configuration={"featureGates": {"MultiKueueKubeConfigPathValidation": True}})


def test_a_check_names_missing_and_inactive_clusters_and_a_missing_config():
    async def story(fleet):
        client = fleet.manager.client
        state = ("True", "Active", "The admission check is active")
        await becomes(fleet, resources.ADMISSION_CHECK, "multikueue", state)
        await client.patch(resources.MULTI_KUEUE_CONFIG, "config", "", {"spec": {"clusters": ["worker1", "other"]}})
        state = ("True", "SomeActiveClusters", "Missing clusters: [other]")
        await becomes(fleet, resources.ADMISSION_CHECK, "multikueue", state)
        fleet.links["worker1"].cut()
        state = ("False", "NoUsableClusters", "Missing clusters: [other], Inactive clusters: [worker1]")
        await becomes(fleet, resources.ADMISSION_CHECK, "multikueue", state)
        await client.delete(resources.MULTI_KUEUE_CONFIG, "config")
        message = 'Cannot load the AdmissionChecks parameters: MultiKueueConfig.kueue.x-k8s.io "config" not found'
        await becomes(fleet, resources.ADMISSION_CHECK, "multikueue", ("False", "BadConfig", message))

    play(story)


def test_a_profile_needs_its_gate():
    async def story(fleet):
        spec = {"clusterSource": {"clusterProfileRef": {"name": "profile"}}}
        await fleet.manager.client.create(
            resources.MULTI_KUEUE_CLUSTER, {"metadata": {"name": "profile"}, "spec": spec}
        )
        message = "load client config failed: MultiKueueClusterProfile feature gate is disabled"
        state = ("False", "MultiKueueClusterProfileFeatureDisabled", message)
        await becomes(fleet, resources.MULTI_KUEUE_CLUSTER, "profile", state)

    play(story)


@pytest.mark.parametrize("fault", ["cut", "silence"])
def test_a_lost_worker_is_inactive_until_it_answers_again(fault):
    async def story(fleet):
        getattr(fleet.links["worker1"], fault)()

        async def is_inactive():
            status, reason, _ = await active(fleet, resources.MULTI_KUEUE_CLUSTER, "worker1")
            return (status, reason) == ("False", "ClientConnectionFailed")

        await fleet.until(is_inactive)
        fleet.links["worker1"].restore()
        await fleet.until(fleet.are_connected, seconds=700)

    play(story)
