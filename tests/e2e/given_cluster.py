"""A cluster of somebody else's, named by PYKUEUE_E2E_KUBECONFIG: the tests install pykueue on it, and take it away again.

The controllers run here, with the rights that `pykueue manifests rbac` gives them and no more.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.controller_process import environment, start_controller, wait_for
from tests.e2e.real_kubectl import CREATED, KUBECTL, Kubectl

GIVEN = os.environ.get("PYKUEUE_E2E_KUBECONFIG", "")
MARKER = "pykueue-e2e"
"""A namespace that is there while the tests are: what an interrupted run left is ours to remove."""
OURS = ("-l", "app.kubernetes.io/part-of=pykueue")
POLICIES = "mutatingadmissionpolicies,mutatingadmissionpolicybindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
SPACED = "workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io"
UNSPACED = ",".join(
    f"{plural}.kueue.x-k8s.io"
    for plural in ("clusterqueues", "cohorts", "admissionchecks", "workloadpriorityclasses", "resourceflavors")
)
JOB_KINDS = (("kubeflow.org", "PyTorchJob"), ("ray.io", "RayJob"), ("ray.io", "RayCluster"))
LEASE = "c1f6bfd2.kueue.x-k8s.io"


def embedded(reason):
    """For tests that make no sense on a cluster of somebody else's."""
    return pytest.mark.skipif(bool(GIVEN), reason=f"about the embedded API: {reason}")


class GivenCluster:
    def __init__(self, kubeconfig, directory):
        assert KUBECTL is not None, "PYKUEUE_E2E_KUBECONFIG needs kubectl"
        assert "PYTEST_XDIST_WORKER" not in os.environ, "there is one cluster: run without -n"
        self.kubeconfig = Path(kubeconfig).resolve()
        self._directory = directory
        self._kubectl = Kubectl(kubeconfig=self.kubeconfig, namespace="", home=directory, is_remembered=False)
        self._configuration = None
        self._controller = None
        self._definitions = []
        self._numbers = itertools.count(1)
        self._install()

    @property
    def controller_kubeconfig(self):
        """The way in of the controller's service account."""
        return self._directory / "controller-kubeconfig"

    # Installing

    def _install(self):
        known = self._names("customresourcedefinitions")
        if MARKER in self._names("namespaces"):
            self._kubectl("delete", "namespace", MARKER)
        elif any(name.endswith(".kueue.x-k8s.io") for name in known):
            pytest.exit("the cluster of PYKUEUE_E2E_KUBECONFIG has Kueue or pykueue: the tests install their own", 2)
        self._kubectl("create", "namespace", MARKER)
        wanted = [*yaml.safe_load_all(_pykueue("manifests", "crds")), *map(_bare_definition, JOB_KINDS)]
        missing = [each for each in wanted if each["metadata"]["name"] not in known or _is_kueue(each)]
        self._definitions = [each["metadata"]["name"] for each in missing]
        self._kubectl.apply(*missing, options=("--server-side", "--force-conflicts"))
        self._kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in self._definitions))
        self._rights = _pykueue("manifests", "rbac")
        self._kubectl("apply", "--server-side", "-f", "-", stdin=self._rights)
        self._write_controller_kubeconfig()
        self.clean()

    def _write_controller_kubeconfig(self):
        account = ("pykueue-controller", "--namespace", "kueue-system", "--duration", "10h")
        token = self._kubectl("create", "token", *account).strip()
        document = json.loads(self._kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        document["users"][0]["user"] = {"token": token}
        self.controller_kubeconfig.write_text(json.dumps(document))

    def remove(self):
        """Everything that was installed, and everything that tests made."""
        self._stop_controller()
        self.clean()
        self._kubectl("delete", POLICIES, *OURS)
        self._kubectl("delete", "--ignore-not-found", "-f", "-", stdin=self._rights)
        self._kubectl("delete", "customresourcedefinitions", *self._definitions)
        self._kubectl("delete", "namespace", MARKER)

    # Between tests

    def configure(self, configuration, *, controllers=True):
        """Policies and, if wanted, a controller with this configuration."""
        if configuration != self._configuration:
            self._stop_controller()
            self._replace_policies(configuration)
            self._configuration = configuration
        if not controllers:
            self._stop_controller()
        elif self._controller is None:
            self._controller = start_controller(self.controller_kubeconfig, self._directory, configuration)
            wait_for(self._controller.leads, "the controller leads")

    def _stop_controller(self):
        if self._controller is not None:
            self._controller.end()
            self._controller = None

    def _replace_policies(self, configuration):
        """The API server takes a moment to see them: it says when it does."""
        self._kubectl("delete", POLICIES, *OURS)
        wait_for(lambda: not self._suspends_jobs(), "the old policies are gone")
        file = self._directory / "policies.json"
        file.write_text(json.dumps({"kind": "Configuration", **configuration}))
        wanted = _pykueue("manifests", "policies", "--config", str(file))
        self._kubectl("apply", "--server-side", "-f", "-", stdin=wanted)
        wait_for(self._suspends_jobs, "the policies are in force")
        wait_for(self._refuses_faults, "the policies are in force")

    def _suspends_jobs(self):
        return self._tried(_job()).stdout == "true"

    def _refuses_faults(self):
        return self._tried(_job(**{"kueue.x-k8s.io/job-min-parallelism": "few"})).returncode != 0

    def _tried(self, obj):
        how = ("--dry-run=server", "-o", "jsonpath={.spec.suspend}")
        return self._kubectl.run("create", *how, "-f", "-", stdin=json.dumps(obj))

    def clean(self):
        """Whether or not a controller runs: it would not take finalizers off, if it is a test that stopped it."""
        made, CREATED[:] = list(CREATED), []
        spaces = {each.what.partition("/")[2] for each in made if each.what.startswith("namespace/")}
        for namespace in sorted({each.namespace or "default" for each in made} - spaces):
            here = [each.what for each in made if (each.namespace or "default") == namespace]
            self._delete(namespace, *reversed(here))
            self._end_pods(namespace, [what for what in here if what.startswith("job.batch/")])
        self._delete("", SPACED, "--all", "--all-namespaces")
        self._delete("", UNSPACED, "--all")
        self._delete("kueue-system", f"lease/{LEASE}")
        for namespace in spaces & self._names("namespaces"):
            self._delete("", f"namespace/{namespace}")
            self._kubectl.run("delete", "pods", "--all", "--force", "-n", namespace)
        wait_for(self._is_clean, "what the tests made is gone")
        wait_for(lambda: not spaces & self._names("namespaces"), "the tests' namespaces are gone", seconds=120)

    def _delete(self, namespace, *what):
        place = ("-n", namespace) if namespace else ()
        if what:
            self._kubectl.run("delete", "--ignore-not-found", "--wait=false", *place, *what)

    def _end_pods(self, namespace, jobs):
        """Nodes may be fake: nobody would end their pods."""
        for job in jobs:
            self._kubectl.run("delete", "pods", "--force", "-n", namespace, "-l", f"job-name={job.partition('/')[2]}")

    def _is_clean(self):
        left = self._kubectl.json("get", SPACED, "--all-namespaces")["items"]
        left += self._kubectl.json("get", UNSPACED)["items"]
        for each in (each for each in left if each["metadata"].get("finalizers")):
            metadata = each["metadata"]
            place = ("-n", metadata["namespace"]) if "namespace" in metadata else ()
            nothing = '{"metadata":{"finalizers":null}}'
            self._kubectl.run("patch", each["kind"], metadata["name"], *place, "--type=merge", "-p", nothing)
        return not left

    def _names(self, plural):
        return {each["metadata"]["name"] for each in self._kubectl.json("get", plural)["items"]}


def _pykueue(*arguments):
    command = [sys.executable, "-m", "pykueue", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=True).stdout


def _is_kueue(definition):
    return definition["spec"]["group"] == "kueue.x-k8s.io"


def _bare_definition(kind):
    """A kind without its operator: enough for everything that queueing is about."""
    group, name = kind
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    defaults = {"submissionMode": {"type": "string", "default": "K8sJobMode"}} if name == "RayJob" else {}
    schema = {**anything, "properties": {"spec": {**anything, "properties": defaults}}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    plural = f"{name.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": name, "plural": plural, "singular": name.lower()},
            "scope": "Namespaced",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _job(**annotations):
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    labels = {"kueue.x-k8s.io/queue-name": "any"}
    metadata = {"name": "trial", "namespace": "default", "labels": labels, "annotations": annotations}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}
