"""`pykueue lint`: what is wrong with a set of queues, with examples that the engine plays."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.app import process
from pykueue.cli import manifest_files, options
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client
    from pykueue.lint.findings import LintFinding, LintRule

_LEVELS = ("error", "warning", "note")
"""The values of `Severity`, the worst first."""
_LONGEST_EXAMPLE = 24


@click.command
@manifest_files.with_files(default="Default: the queues of the cluster.")
@options.with_config("the one among the files, or that of the cluster")
@options.with_fail_on(_LEVELS, default="warning")
@click.option("--ignore", multiple=True, metavar="RULE", help="Leave out a rule; may be repeated.")
@click.option("--rules", "lists_rules", is_flag=True, help="List all rules, and do nothing else.")
@click.option("-v", "--verbose", is_flag=True, help="Also print notes: what is sound by design, but good to know.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="The format of the report.",
)
@with_cluster
def lint(
    *,
    names: tuple[str, ...],
    config: Path | None,
    failing: tuple[str, ...],
    ignore: tuple[str, ...],
    lists_rules: bool,
    verbose: bool,
    output: str,
    cluster: ClusterAccess,
) -> None:
    """Find what is wrong with a set of queues.

    Queues may be valid and still admit nothing, lend nothing, or let jobs evict each other. Every
    finding has an example: the engine that decides about jobs has played it. Jobs and Nodes among
    the files are looked at, too.

    What a cluster would refuse is a finding, as `validate` prints it. The other rules say what
    does not work although a cluster accepts it. `doctor` checks an installation.
    """
    from pykueue.lint import checks

    unknown = sorted(set(ignore) - {rule.id for rule in checks.RULES})
    if unknown:
        raise click.UsageError(f"--ignore: there is no rule {unknown[0]}; `pykueue lint --rules` lists all")
    if lists_rules:
        _list_rules(checks.RULES, output)
        return
    configuration = None if config is None else process.load_configuration(config).document
    if names:
        documents, faults = manifest_files.read(names)
        findings = checks.of_documents(documents, configuration, faults)
    else:
        findings = _of_cluster(cluster, configuration)
    findings = [finding for finding in findings if finding.rule.id not in ignore]
    visible = [finding for finding in findings if verbose or finding.level.value != "note"]
    _print(visible, output)
    if any(finding.level.value in failing for finding in findings):
        raise SystemExit(1)


def _of_cluster(cluster: ClusterAccess, configuration: "Mapping[str, Any] | None") -> "list[LintFinding]":
    from pykueue.app import running_configuration
    from pykueue.lint import checks, queue_set

    async def read(client: "Client", _namespace: str) -> "tuple[list[Object], Mapping[str, Any]]":
        in_force = await running_configuration.find(client) if configuration is None else configuration
        return await _objects(client), in_force

    items, in_force = cluster.run(read, hint="lint reads queues, flavors, nodes and Workloads of all namespaces")
    return checks.findings(queue_set.from_objects(items, in_force, is_complete=True))


async def _objects(client: "Client") -> "list[Object]":
    from pykueue.api import resources

    kinds = (
        resources.NAMESPACE,
        resources.NODE,
        resources.RESOURCE_FLAVOR,
        resources.ADMISSION_CHECK,
        resources.COHORT,
        resources.CLUSTER_QUEUE,
        resources.LOCAL_QUEUE,
        resources.WORKLOAD,
        resources.WORKLOAD_PRIORITY_CLASS,
        resources.PRIORITY_CLASS,
    )
    return [
        {**obj, "apiVersion": kind.api_version, "kind": kind.kind}
        for kind in kinds
        for obj in (await client.list(kind)).items
    ]


def _print(findings: "list[LintFinding]", output: str) -> None:
    from pykueue.lint import checks, sarif

    if output == "sarif":
        outputs.show_json(sarif.report(findings, checks.RULES))
    elif output == "json":
        outputs.show_json({"findings": [*map(_as_json, findings)]})
    else:
        _print_text(findings)


def _as_json(finding: "LintFinding") -> dict[str, Any]:
    return {
        "rule": finding.rule.id,
        "severity": finding.level.value,
        "object": str(finding.subject),
        "field": finding.field,
        "message": finding.message,
        "remedy": finding.rule.remedy,
        "example": list(finding.example),
        "file": finding.file,
        "line": finding.line,
    }


def _print_text(findings: "list[LintFinding]") -> None:
    for finding in findings:
        position = f"{finding.file}:{finding.line}: " if finding.file else ""
        outputs.echo(f"{position}{finding.level.value}: {finding.text} [{finding.rule.id}]")
        for line in finding.example[:_LONGEST_EXAMPLE]:
            outputs.echo(f"    {line}")
        outputs.echo(f"  {finding.rule.remedy}")
    counts = [(sum(finding.level.value == level for finding in findings), level) for level in _LEVELS]
    parts = [f"{number} {name}{'' if number == 1 else 's'}" for number, name in counts if number]
    outputs.echo(", ".join(parts) or "nothing found")


def _list_rules(rules: "tuple[LintRule, ...]", output: str) -> None:
    if output != "text":
        outputs.show_json(
            [
                {"id": rule.id, "severity": rule.severity.value, "summary": rule.summary, "remedy": rule.remedy}
                for rule in rules
            ]
        )
        return
    outputs.show_table(("RULE", "SEVERITY", "WHAT"), [(rule.id, rule.severity.value, rule.summary) for rule in rules])
