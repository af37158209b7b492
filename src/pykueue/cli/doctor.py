"""`pykueue doctor`: looks at a cluster and prints, for each problem, the one command that repairs it."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.app import serving
from pykueue.cli import output as outputs
from pykueue.cli import webhook_facts
from pykueue.cli.connection import Cluster, connects

if TYPE_CHECKING:
    from pykueue.api.configuration.loading import Loaded
    from pykueue.install.diagnosis import Facts, Finding
    from pykueue.kube.client import Client

_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True),
    help="The Configuration. Default: the one that is installed.",
)
@click.option("--webhooks", is_flag=True, help="Expect webhooks instead of policies. Default: if there are any.")
@outputs.reports
@connects
def doctor(*, config: Path | None, webhooks: bool, cluster: Cluster, output: str) -> None:
    """Check a cluster: versions, definitions, policies, rights, leader, clock, job kinds."""
    from pykueue.install import diagnosis

    given = None if config is None else serving.load_configuration(config)

    async def look(client: "Client", _namespace: str) -> "Facts":
        configuration = given or await _running(client)
        has_webhooks = webhooks or await webhook_facts.are_there(client)
        print_part = await _print_part(client, config, configuration)
        return await _facts(client, configuration, webhooks=has_webhooks, print_part=print_part)

    found = list(diagnosis.findings(cluster.run(look)))
    _show(found, output)
    problems = sum(not finding.is_good for finding in found)
    if problems:
        raise click.ClickException(f"{problems} of {len(found)} checks failed")


async def _running(client: "Client") -> "Loaded":
    """What is installed, else what is installed where nobody chooses."""
    from pykueue.api.configuration import loading
    from pykueue.app import running_configuration

    document = await running_configuration.find(client)
    return loading.complete(dict(document)) if document else serving.load_configuration(None)


def _show(found: "list[Finding]", output: str) -> None:
    if output == "json":
        checks = [
            {"subject": each.subject, "ok": each.is_good, "detail": each.detail, "repair": each.repair}
            for each in found
        ]
        outputs.show_json(checks)
        return
    for finding in found:
        click.echo(f"{'ok  ' if finding.is_good else 'FAIL'} {finding.subject:<12} {finding.detail}")
        if finding.repair:
            click.echo(f"     {'':<12} repair: {finding.repair}")


async def _print_part(client: "Client", config: Path | None, configuration: "Loaded") -> str:
    """A repair must not replace what is configured by the defaults."""
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
    from pykueue.cli import manifests
    from pykueue.install.diagnosis import Facts

    version = await client.raw("GET", "/version")
    wanted = {_name(each) for each in manifests.policy_objects(configuration)}
    holder, age = await _lease(client, configuration)
    definitions = await _items(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    enabled = configuration.value.enabled_frameworks
    served, unreachable = await _served(client)
    return Facts(
        version=(int(version["major"]), int("".join(filter(str.isdigit, version["minor"])))),
        clock_error_seconds=await _clock_error(client),
        wanted_definitions=frozenset(each["metadata"]["name"] for each in manifests.definition_objects()),
        definitions={each["metadata"]["name"]: each for each in definitions},
        wanted_policies=frozenset(wanted),
        policies=frozenset(await _policies(client)),
        own_webhooks=await webhook_facts.gather(client, configuration.value) if webhooks else None,
        webhooks=await _webhooks(client),
        missing_rights=await _missing_rights(client, configuration, webhooks=webhooks),
        lease_holder=holder,
        lease_age_seconds=age,
        namespace=configuration.value.namespace,
        frameworks={name: job_kinds.JOB_KINDS[name].resource for name in enabled},
        served=served,
        unreachable=unreachable,
        print_part=print_part,
    )


def _name(obj: Any) -> str:
    return str(obj["metadata"]["name"])


async def _items(client: "Client", path: str) -> list[Any]:
    """None where the API server has no such kind."""
    from pykueue.api.errors import ApiError

    try:
        found = await client.raw("GET", path)
    except ApiError as error:
        if error.code != 404:
            raise
        return []
    return list(found.get("items") or ())


async def _policies(client: "Client") -> set[str]:
    """Those that are bound too: a policy without its binding does nothing."""
    found: set[str] = set()
    for kind in ("mutatingadmissionpolicies", "validatingadmissionpolicies"):
        made = {_name(each) for each in await _items(client, f"{_REGISTRATION}/{kind}")}
        bindings = await _items(client, f"{_REGISTRATION}/{kind.removesuffix('ies')}ybindings")
        found |= made & {each["spec"]["policyName"] for each in bindings}
    return found


async def _webhooks(client: "Client") -> tuple[str, ...]:
    found: set[str] = set()
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        found |= {_name(each) for each in await _items(client, f"{_REGISTRATION}/{kind}")}
    return tuple(sorted(name for name in found if name.startswith("kueue-")))


async def _missing_rights(client: "Client", configuration: "Loaded", *, webhooks: bool) -> tuple[str, ...]:
    """Asks the API server about every right that the controller's service account should have."""
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
    from pykueue.api.errors import ApiError
    from pykueue.api.resources import LEASE

    terms = configuration.value.leader_election
    namespace = terms.resource_namespace or configuration.value.namespace
    try:
        spec = (await client.get(LEASE, terms.resource_name, namespace)).get("spec") or {}
    except ApiError as error:
        if error.code != 404:
            raise
        return "", None
    if not spec.get("renewTime"):
        return str(spec.get("holderIdentity") or ""), None
    age = datetime.now(UTC) - datetime.fromisoformat(spec["renewTime"])
    return str(spec.get("holderIdentity") or ""), age.total_seconds()


async def _clock_error(client: "Client") -> float:
    """The API server dates what it would create."""
    from pykueue.api.resources import LEASE
    from pykueue.api.times import SECOND_NS, to_ns
    from pykueue.kube.client import WriteOptions

    trial = {"metadata": {"generateName": "pykueue-doctor-"}}
    made = await client.create(LEASE, trial, "default", WriteOptions(dry_run=True))
    return time.time() - to_ns(made["metadata"]["creationTimestamp"]) / SECOND_NS


async def _served(client: "Client") -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """(group, plural) of what is served, and the groups that somebody else should serve and does not."""
    from pykueue.api.errors import ApiError

    found: set[tuple[str, str]] = set()
    unreachable: set[str] = set()
    groups = [("", "/api/v1")]
    for group in (await client.raw("GET", "/apis"))["groups"]:
        groups += [(group["name"], f"/apis/{each['groupVersion']}") for each in group["versions"]]
    for name, path in groups:
        try:
            listed = await client.raw("GET", path)
        except ApiError as error:
            if error.code != 503:
                raise
            unreachable.add(name)
        else:
            found |= {(name, each["name"]) for each in listed.get("resources") or ()}
    return frozenset(found), frozenset(unreachable)
