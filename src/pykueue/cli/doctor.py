"""`pykueue doctor`: check a cluster and print, for each problem, the command that repairs it.

This module collects the facts; `install.diagnosis` judges them.
"""

import base64
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.api import objects
from pykueue.app import process
from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.api.configuration.loading import Loaded
    from pykueue.api.configuration.types import Configuration
    from pykueue.install.diagnosis import Facts, Finding, WebhookFacts
    from pykueue.kube.client import Client

_MOST_NAMES = 5
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


@click.command()
@options.with_config("the one that is installed")
@click.option(
    "--webhooks", is_flag=True, help="Expect webhooks instead of policies. Default: if webhooks are installed."
)
@click.option("-v", "--verbose", is_flag=True, help="Print long lists in full.")
@outputs.with_report_output
@with_cluster
def doctor(*, config: Path | None, webhooks: bool, verbose: bool, cluster: ClusterAccess, output: str) -> None:
    """Check an installation, and print how to repair it.

    Every problem is printed with the command that repairs it. Of a cluster, versions, definitions,
    policies or webhooks, rights, leader, clock and job kinds are checked; of `pykueue up`, nodes,
    queues, settings without effect, and jobs that can never start. The exit code is 1 if a check
    fails.
    """
    from pykueue.cli import local_doctor
    from pykueue.install import diagnosis, local_diagnosis

    chosen = None if config is None else process.load_configuration(config)

    async def find(client: "Client", _namespace: str) -> "list[Finding]":
        if chosen is None and not webhooks and await local_doctor.is_local(client):
            return [*local_diagnosis.findings(await local_doctor.facts(client))]
        return [*diagnosis.findings(await collect(client))]

    async def collect(client: "Client") -> "Facts":
        configuration = chosen or await _running_configuration(client)
        has_webhooks = webhooks or await _has_webhooks(client)
        command = await _manifests_command(client, config, configuration)
        return await _facts(client, configuration, webhooks=has_webhooks, print_part=command)

    findings = cluster.run(find)
    _print(findings, output, most_names=None if verbose else _MOST_NAMES)
    problems = sum(not finding.is_good for finding in findings)
    if problems:
        raise click.ClickException(f"{problems} of {len(findings)} checks failed")


async def _running_configuration(client: "Client") -> "Loaded":
    """The Configuration that the cluster runs with, else the shipped one."""
    from pykueue.api.configuration import loading
    from pykueue.app import running_configuration

    document = await running_configuration.find(client)
    return loading.complete(dict(document)) if document else process.load_configuration(None)


def _print(findings: "list[Finding]", output: str, *, most_names: int | None) -> None:
    if output == "json":
        checks = [
            {"subject": finding.subject, "ok": finding.is_good, "detail": finding.text(), "repair": finding.repair}
            for finding in findings
        ]
        outputs.show_json(checks)
        return
    for finding in findings:
        outputs.echo(f"{'ok  ' if finding.is_good else 'FAIL'} {finding.subject:<12} {finding.text(most_names)}")
        if finding.repair:
            outputs.echo(f"     {'':<12} repair: {finding.repair}")


async def _manifests_command(client: "Client", config: Path | None, configuration: "Loaded") -> str:
    """The command that prints `{part}` of the manifests with the Configuration in use.

    A repair must not replace a configured value by its default.
    """
    from pykueue.app.configured_controllers import NAME

    if config is not None:
        return f"pykueue manifests {{part}} --config {config}"
    namespace = configuration.value.namespace
    if not await _items(client, f"/api/v1/namespaces/{namespace}/configmaps?fieldSelector=metadata.name={NAME}"):
        return "pykueue manifests {part}"
    installed = f"kubectl get configmap {NAME} --namespace {namespace} --output yaml"
    return f"{installed} | pykueue manifests {{part}} --config /dev/stdin"


async def _facts(client: "Client", configuration: "Loaded", *, webhooks: bool, print_part: str) -> "Facts":
    from pykueue.api.rules.jobs import job_kinds
    from pykueue.cli import local_doctor, manifests
    from pykueue.install.diagnosis import Facts

    version = await client.raw("GET", "/version")
    is_embedded = local_doctor.is_embedded(version)
    holder, age = await _lease(client, configuration)
    definitions = await _items(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    enabled = configuration.value.enabled_frameworks
    served, unreachable = await _served(client)
    return Facts(
        version=(int(version["major"]), int("".join(filter(str.isdigit, version["minor"])))),
        clock_error_seconds=await _clock_error(client),
        wanted_definitions=frozenset(map(objects.name, manifests.definition_objects())),
        definitions={objects.name(definition): definition for definition in definitions},
        wanted_policies=frozenset(map(objects.name, manifests.policy_objects(configuration))),
        policies=frozenset(await _bound_policies(client)),
        own_webhooks=await _webhook_facts(client, configuration.value) if webhooks else None,
        webhooks=await _kueue_webhooks(client),
        missing_rights=() if is_embedded else await _missing_rights(client, configuration, webhooks=webhooks),
        lease_holder=holder,
        lease_age_seconds=age,
        namespace=configuration.value.namespace,
        frameworks={name: job_kinds.JOB_KINDS[name].resource for name in enabled},
        served=served,
        unreachable=unreachable,
        is_embedded=is_embedded,
        print_part=print_part,
    )


async def _items(client: "Client", path: str) -> list[Any]:
    """The items of a list; empty if the API server does not serve the kind."""
    return list((await _get(client, path) or {}).get("items") or ())


async def _get(client: "Client", path: str) -> Any:
    """The document at a path; None if there is none."""
    from pykueue.api.errors import ApiError

    try:
        return await client.raw("GET", path)
    except ApiError as error:
        if error.code != 404:
            raise
        return None


async def _bound_policies(client: "Client") -> set[str]:
    """The policies that have a binding; without one a policy does nothing."""
    bound: set[str] = set()
    for plural in ("mutatingadmissionpolicies", "validatingadmissionpolicies"):
        policies = set(map(objects.name, await _items(client, f"{_REGISTRATION}/{plural}")))
        bindings = await _items(client, f"{_REGISTRATION}/{plural.removesuffix('ies')}ybindings")
        bound |= policies & {binding["spec"]["policyName"] for binding in bindings}
    return bound


async def _kueue_webhooks(client: "Client") -> tuple[str, ...]:
    """The webhook configurations that Kueue itself left behind."""
    names: set[str] = set()
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        names |= set(map(objects.name, await _items(client, f"{_REGISTRATION}/{plural}")))
    return tuple(sorted(name for name in names if name.startswith("kueue-")))


async def _missing_rights(client: "Client", configuration: "Loaded", *, webhooks: bool) -> tuple[str, ...]:
    """The rights that the controller's service account lacks, as the API server answers."""
    from pykueue.cli import manifests
    from pykueue.install import rbac

    user = f"system:serviceaccount:{configuration.value.namespace}:{rbac.NAME}"
    missing = []
    for attributes in rbac.required_access(manifests.right_objects(configuration, webhooks=webhooks)):
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        answer = await client.raw("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        if not answer["status"].get("allowed"):
            subresource = "/".join(filter(None, (attributes["resource"], attributes["subresource"])))
            missing.append(f"{attributes['verb']} {subresource}")
    return tuple(missing)


async def _lease(client: "Client", configuration: "Loaded") -> tuple[str, float | None]:
    """The holder of the Lease, and the seconds since it was renewed."""
    from pykueue.api.resources import LEASE

    terms = configuration.value.leader_election
    namespace = terms.resource_namespace or configuration.value.namespace
    lease = await _get(client, LEASE.path(namespace, terms.resource_name))
    spec = objects.spec(lease) if lease else {}
    if not spec.get("renewTime"):
        return str(spec.get("holderIdentity") or ""), None
    age = datetime.now(UTC) - datetime.fromisoformat(spec["renewTime"])
    return str(spec.get("holderIdentity") or ""), age.total_seconds()


async def _clock_error(client: "Client") -> float:
    """How far our clock is ahead, in seconds: a dry run shows the time of the API server."""
    from pykueue.api.resources import LEASE
    from pykueue.api.times import SECOND_NS, to_ns
    from pykueue.kube.client import WriteOptions

    trial = {"metadata": {"generateName": "pykueue-doctor-"}}
    lease = await client.create(LEASE, trial, "default", WriteOptions(dry_run=True))
    return time.time() - to_ns(lease["metadata"]["creationTimestamp"]) / SECOND_NS


async def _served(client: "Client") -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """The (group, plural) of all resources, and the groups whose extension API server is down."""
    from pykueue.api.errors import ApiError

    served: set[tuple[str, str]] = set()
    unreachable: set[str] = set()
    paths = [("", "/api/v1")]
    for group in (await client.raw("GET", "/apis"))["groups"]:
        paths += [(group["name"], f"/apis/{version['groupVersion']}") for version in group["versions"]]
    for name, path in paths:
        try:
            resource_list = await client.raw("GET", path)
        except ApiError as error:
            if error.code != 503:
                raise
            unreachable.add(name)
        else:
            served |= {(name, entry["name"]) for entry in resource_list.get("resources") or ()}
    return frozenset(served), frozenset(unreachable)


async def _has_webhooks(client: "Client") -> bool:
    from pykueue.install.webhooks import MUTATING, QUEUED

    return await _get(client, MUTATING.path(name=QUEUED)) is not None


async def _webhook_facts(client: "Client", configuration: "Configuration") -> "WebhookFacts":
    from pykueue.install.diagnosis import WebhookFacts
    from pykueue.install.webhooks import MUTATING, QUEUED, UNQUEUED, VALIDATING

    client_configs: list[Any] = []
    missing: list[str] = []
    for resource in (MUTATING, VALIDATING):
        for name in (QUEUED, UNQUEUED):
            obj = await _get(client, resource.path(name=name))
            if obj is None:
                missing.append(f"{resource.kind} {name}")
            else:
                client_configs += [webhook["clientConfig"] for webhook in obj.get("webhooks") or ()]
    certificate, days_left = await _webhook_certificate(client, configuration)
    bundles = [base64.b64decode(client_config.get("caBundle") or "") for client_config in client_configs]
    return WebhookFacts(
        missing=tuple(missing),
        is_trusted=all(_trusts(bundle, certificate) for bundle in bundles),
        days_left=days_left,
        ready_endpoints=await _ready_endpoints(client, configuration),
        is_outside=any("url" in client_config for client_config in client_configs),
    )


async def _webhook_certificate(client: "Client", configuration: "Configuration") -> tuple[bytes, float | None]:
    """The certificate in the Secret, and the days until it expires."""
    from cryptography import x509

    name = configuration.internal_cert_management.webhook_secret_name
    secret = await _get(client, f"/api/v1/namespaces/{configuration.namespace}/secrets/{name}") or {}
    certificate = base64.b64decode(objects.nested(secret, "data").get("tls.crt") or "")
    if not certificate:
        return b"", None
    end = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    return certificate, (end - datetime.now(UTC)).total_seconds() / 86400


def _trusts(bundle: bytes, certificate: bytes) -> bool:
    from pykueue.webhooks import certificate_lifecycle

    return bool(certificate) and certificate_lifecycle.is_trusted(bundle, certificate)


async def _ready_endpoints(client: "Client", configuration: "Configuration") -> int:
    service = configuration.internal_cert_management.webhook_service_name
    path = f"/apis/discovery.k8s.io/v1/namespaces/{configuration.namespace}/endpointslices"
    slices = await _items(client, f"{path}?labelSelector=kubernetes.io/service-name%3D{service}")
    endpoints = [endpoint for endpoint_slice in slices for endpoint in endpoint_slice.get("endpoints") or ()]
    return sum(objects.nested(endpoint, "conditions").get("ready") is not False for endpoint in endpoints)
