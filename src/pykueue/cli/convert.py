"""`pykueue convert`: rewrite manifests in another version of the Kueue API."""

import sys
from pathlib import Path

import click

from pykueue.api import manifests, yaml_text
from pykueue.api.kueue import conversion

_TO = {"v1beta1": conversion.to_v1beta1, "v1beta2": conversion.to_v1beta2}


@click.command
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE", help="File, or - for stdin.")
@click.option("--to", "version", type=click.Choice(sorted(_TO)), default="v1beta2", show_default=True)
def convert(files: tuple[str, ...], version: str) -> None:
    """Print the documents of FILE with every object of kueue.x-k8s.io in the version asked for; others stay as they are."""
    documents = []
    faults = []
    for file in files:
        found, wrong = manifests.read(_bytes(file), file)
        documents += found
        faults += wrong
    for fault in faults:
        click.echo(str(fault), err=True)
    if faults:
        raise SystemExit(1)
    click.echo(yaml_text.dump([_TO[version](document.object) for document in documents]), nl=False)


def _bytes(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
