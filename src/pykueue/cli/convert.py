"""`pykueue convert`: print manifests in another version of the Kueue API."""

import sys
from pathlib import Path

import click

from pykueue.api import manifests
from pykueue.api.kueue import conversion
from pykueue.cli import output as outputs

_TO = {"v1beta1": conversion.to_v1beta1, "v1beta2": conversion.to_v1beta2}


@click.command
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A file, or - for standard input; may be repeated.",
)
@click.option(
    "--to",
    "version",
    type=click.Choice(sorted(_TO)),
    default="v1beta2",
    show_default=True,
    help="The version to print.",
)
@outputs.with_manifest_output
def convert(*, files: tuple[str, ...], version: str, output: str) -> None:
    """Print manifests in another version of the Kueue API.

    Objects of other API groups are printed unchanged.
    """
    documents = []
    faults = []
    for file in files:
        file_documents, file_faults = manifests.read(_bytes(file), file)
        documents += file_documents
        faults += file_faults
    for fault in faults:
        outputs.echo(str(fault), err=True)
    if faults:
        raise SystemExit(1)
    outputs.show_manifests([_TO[version](document.object) for document in documents], output)


def _bytes(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
