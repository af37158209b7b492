"""How commands print objects: as kubectl's `--output` does, or as a table."""

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from pykueue.api import escaping

if TYPE_CHECKING:
    from pykueue.api.scheme import Object, Resource

Command = Callable[..., Any]
Row = tuple[str, ...]

_PLAIN = ("json", "yaml", "name")
_JSONPATH = "jsonpath="


def _check(_ctx: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is None or value in (*_PLAIN, "wide") or value.startswith(_JSONPATH):
        return value
    allowed = ",".join((*_PLAIN, "wide", "jsonpath=TEMPLATE"))
    raise click.BadParameter(f'unable to match a printer suitable for the output format "{value}", allowed: {allowed}')


def with_object_output(command: Command) -> Command:
    """Add `--output` to a command that prints objects."""
    return click.option(
        "--output",
        "-o",
        callback=_check,
        metavar="json|yaml|name|wide|jsonpath=…",
        help="Print the objects in this format. Default: a table, or one line for each object.",
    )(command)


def with_report_output(command: Command) -> Command:
    """Add `--output` to a command that prints a report, not objects."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="The format of the report.",
    )(command)


def with_manifest_output(command: Command) -> Command:
    """Add `--output` to a command that prints manifests."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(["yaml", "json"]),
        default="yaml",
        show_default=True,
        help="The format of the manifests; in JSON they are a List.",
    )(command)


def show_manifests(objects: "Sequence[Object]", output: str) -> None:
    if output == "json":
        show_json({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(objects)})
        return
    from pykueue.api import yaml_text

    echo(yaml_text.dump(objects), nl=False)


def show_report(report: dict[str, Any], lines: Iterable[str], output: str) -> None:
    """Print what a command did: as JSON, or line by line."""
    if output == "json":
        show_json(report)
        return
    for line in lines:
        echo(line)


def dry_run_suffix(dry_run: str) -> str:
    return "" if dry_run == "none" else f" ({dry_run} dry run)"


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text. Nothing in it reaches the terminal as a command, whoever wrote it."""
    click.echo(escaping.paragraphs(text), err=err, nl=nl)


def overwrite_line(text: str) -> None:
    """Replace the last line of the terminal, for progress. The text comes from no user."""
    click.echo(f"\r{text}\x1b[K", err=True, nl=False, color=True)


def show_json(report: Any) -> None:
    echo(_json_text(report, indent=2))


def _json_text(value: Any, *, indent: int) -> str:
    """JSON in ASCII. Python escapes all control characters but one."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def is_structured(output: str | None) -> bool:
    return output is not None and output != "wide"


def show(resource: "Resource", obj: "Object", output: str | None, *, done: str = "") -> None:
    """Print one object; without a format its name and what was done to it."""
    if is_structured(output) and output != "name":
        _dump({"apiVersion": resource.api_version, "kind": resource.kind, **obj}, str(output))
    else:
        echo(" ".join(filter(None, (qualified(resource, obj), "" if output == "name" else done))))


def show_list(resource: "Resource", objects: "Sequence[Object]", output: str) -> None:
    if output == "name":
        for obj in objects:
            echo(qualified(resource, obj))
        return
    typed = [{"apiVersion": resource.api_version, "kind": resource.kind, **obj} for obj in objects]
    _dump({"apiVersion": resource.api_version, "kind": f"{resource.kind}List", "metadata": {}, "items": typed}, output)


def qualified(resource: "Resource", obj: "Object") -> str:
    """The name of an object as kubectl prints it: `clusterqueue.kueue.x-k8s.io/team-a`."""
    singular = resource.kind.lower()
    return (
        f"{singular}.{resource.group}/{obj['metadata']['name']}"
        if resource.group
        else f"{singular}/{obj['metadata']['name']}"
    )


def _dump(obj: "Object", output: str) -> None:
    if output == "json":
        echo(_json_text(obj, indent=4))
    elif output == "yaml":
        import yaml

        echo(yaml.safe_dump(obj, sort_keys=True), nl=False)
    else:
        echo(_fill_template(output.removeprefix(_JSONPATH), obj), nl=False)


def _fill_template(template: str, obj: "Object") -> str:
    """Fill in a JSONPath template of kubectl. Several values are joined by a space."""
    from pykueue.apiserver.tables import jsonpath

    def values_of(match: re.Match[str]) -> str:
        expression = match[1].strip()
        if expression[:1] in "'\"":
            return expression.strip(expression[0]).encode().decode("unicode_escape")
        try:
            values = jsonpath.find(expression, obj)
        except jsonpath.PathError as fault:
            raise click.UsageError(f"error parsing jsonpath {template}, {fault}") from None
        return " ".join(value if isinstance(value, str) else json.dumps(value) for value in values)

    return re.sub(r"\{((?:[^{}'\"]|'[^']*'|\"[^\"]*\")*)\}", values_of, template)


def show_table(headers: Row, rows: Iterable[Row], *, namespaces: Sequence[str] | None = None) -> None:
    lines = [tuple(map(escaping.one_line, line)) for line in (headers, *rows)]
    if namespaces is not None:
        lines = [(first, *line) for first, line in zip(("NAMESPACE", *namespaces), lines, strict=True)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        echo("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def nothing_found(namespace: str | None) -> None:
    """Print kubectl's line; without a namespace if all were searched or the kind has none."""
    suffix = "" if namespace is None else f" in {namespace} namespace."
    echo(f"No resources found{suffix}", err=True)


def age(obj: "Object") -> str:
    from pykueue.apiserver.tables import ages

    return ages.age(obj["metadata"].get("creationTimestamp"), time.time())
