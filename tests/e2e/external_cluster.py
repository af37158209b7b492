"""The cluster of PYKUEUE_E2E_KUBECONFIG. The tests install pykueue on it and remove it again.

The controllers run on this machine, with only the permissions of `pykueue manifests rbac`.
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

EXTERNAL_KUBECONFIG = os.environ.get("PYKUEUE_E2E_KUBECONFIG", "")
MARKER = "pykueue-e2e"
"""A namespace that marks the objects of an interrupted run, so that the next run removes them."""
PYKUEUE_OBJECTS = ("-l", "app.kubernetes.io/part-of=pykueue")
POLICIES = "mutatingadmissionpolicies,mutatingadmissionpolicybindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
NAMESPACED = "workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io"
CLUSTER_SCOPED = ",".join(
    f"{plural}.kueue.x-k8s.io"
    for plural in ("clusterqueues", "cohorts", "admissionchecks", "workloadpriorityclasses", "resourceflavors")
)
JOB_KINDS = (("kubeflow.org", "PyTorchJob"), ("ray.io", "RayJob"), ("ray.io", "RayCluster"))
LEASE = "c1f6bfd2.kueue.x-k8s.io"


def embedded(reason):
    """Marks tests that only apply to the embedded API."""
    return pytest.mark.skipif(bool(EXTERNAL_KUBECONFIG), reason=f"about the embedded API: {reason}")


class ExternalCluster:
    def __init__(self, kubeconfig, directory):
        assert KUBECTL is not None, "PYKUEUE_E2E_KUBECONFIG needs kubectl"
        assert "PYTEST_XDIST_WORKER" not in os.environ, "there is one cluster: run without -n"
        self.kubeconfig = Path(kubeconfig).resolve()
        self._directory = directory
        self._kubectl = Kubectl(kubeconfig=self.kubeconfig, namespace="", home=directory, records_created=False)
        self._configuration = None
        self._controller = None
        self._definitions = []
        self._numbers = itertools.count(1)
        self._install()

    @property
    def controller_kubeconfig(self):
        """A kubeconfig of the controller's service account."""
        return self._directory / "controller-kubeconfig"

    # Installing

    def _install(self):
        definitions = self._names("customresourcedefinitions")
        if MARKER in self._names("namespaces"):
            self._kubectl("delete", "namespace", MARKER)
        elif any(name.endswith(".kueue.x-k8s.io") for name in definitions):
            pytest.exit("the cluster of PYKUEUE_E2E_KUBECONFIG has Kueue or pykueue: the tests install their own", 2)
        self._kubectl("create", "namespace", MARKER)
        crds = [*yaml.safe_load_all(_pykueue("manifests", "crds")), *map(_bare_definition, JOB_KINDS)]
        missing = [crd for crd in crds if crd["metadata"]["name"] not in definitions or _is_kueue(crd)]
        self._definitions = [crd["metadata"]["name"] for crd in missing]
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
        """Remove everything that was installed or created by tests."""
        self._stop_controller()
        self.clean()
        self._kubectl("delete", POLICIES, *PYKUEUE_OBJECTS)
        self._kubectl("delete", "--ignore-not-found", "-f", "-", stdin=self._rights)
        self._kubectl("delete", "customresourcedefinitions", *self._definitions)
        self._kubectl("delete", "namespace", MARKER)

    # Between tests

    def configure(self, configuration, *, controllers=True):
        """Install the policies and start or stop the controller."""
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
        """Replace the policies and wait until the API server enforces them."""
        self._kubectl("delete", POLICIES, *PYKUEUE_OBJECTS)
        wait_for(lambda: not self._suspends_jobs(), "the old policies are gone")
        file = self._directory / "policies.json"
        file.write_text(json.dumps({"kind": "Configuration", **configuration}))
        policies = _pykueue("manifests", "policies", "--config", str(file))
        self._kubectl("apply", "--server-side", "-f", "-", stdin=policies)
        wait_for(self._suspends_jobs, "the policies are in force")
        wait_for(self._refuses_faults, "the policies are in force")

    def _suspends_jobs(self):
        return self._dry_run(_job()).stdout == "true"

    def _refuses_faults(self):
        return self._dry_run(_job(**{"kueue.x-k8s.io/job-min-parallelism": "few"})).returncode != 0

    def _dry_run(self, obj):
        options = ("--dry-run=server", "-o", "jsonpath={.spec.suspend}")
        return self._kubectl.run("create", *options, "-f", "-", stdin=json.dumps(obj))

    def clean(self):
        """Delete all objects of tests, also if no controller runs that would remove finalizers."""
        created, CREATED[:] = list(CREATED), []
        namespaces = {item.name.partition("/")[2] for item in created if item.name.startswith("namespace/")}
        for namespace in sorted({item.namespace or "default" for item in created} - namespaces):
            names = [item.name for item in created if (item.namespace or "default") == namespace]
            self._delete(namespace, *reversed(names))
            self._delete_pods(namespace, [name for name in names if name.startswith("job.batch/")])
        self._delete("", NAMESPACED, "--all", "--all-namespaces")
        self._delete("", CLUSTER_SCOPED, "--all")
        self._delete("kueue-system", f"lease/{LEASE}")
        for namespace in namespaces & self._names("namespaces"):
            self._delete("", f"namespace/{namespace}")
            self._kubectl.run("delete", "pods", "--all", "--force", "-n", namespace)
        wait_for(self._is_clean, "the objects of the tests are deleted")
        wait_for(lambda: not namespaces & self._names("namespaces"), "the namespaces are deleted", seconds=120)

    def _delete(self, namespace, *arguments):
        scope = ("-n", namespace) if namespace else ()
        if arguments:
            self._kubectl.run("delete", "--ignore-not-found", "--wait=false", *scope, *arguments)

    def _delete_pods(self, namespace, jobs):
        """Force the deletion: a fake node has no kubelet that ends its pods."""
        for job in jobs:
            self._kubectl.run("delete", "pods", "--force", "-n", namespace, "-l", f"job-name={job.partition('/')[2]}")

    def _is_clean(self):
        remaining = self._kubectl.json("get", NAMESPACED, "--all-namespaces")["items"]
        remaining += self._kubectl.json("get", CLUSTER_SCOPED)["items"]
        for obj in remaining:
            metadata = obj["metadata"]
            if metadata.get("finalizers"):
                scope = ("-n", metadata["namespace"]) if "namespace" in metadata else ()
                patch = '{"metadata":{"finalizers":null}}'
                self._kubectl.run("patch", obj["kind"], metadata["name"], *scope, "--type=merge", "-p", patch)
        return not remaining

    def _names(self, plural):
        return {obj["metadata"]["name"] for obj in self._kubectl.json("get", plural)["items"]}


def _pykueue(*arguments):
    command = [sys.executable, "-m", "pykueue", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=True).stdout


def _is_kueue(definition):
    return definition["spec"]["group"] == "kueue.x-k8s.io"


def _bare_definition(kind):
    """A definition without schema and operator, which is enough to test queueing."""
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
