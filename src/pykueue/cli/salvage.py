"""`pykueue salvage DIRECTORY`: rebuild the database of a damaged data directory."""

from pathlib import Path

import click

from pykueue.cli import output as outputs


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@outputs.with_report_output
def salvage(*, directory: Path, output: str) -> None:
    """Rebuild the damaged database of a data directory.

    The new database has all rows of DIRECTORY that can still be read.
    The damaged database is kept under another name.
    """
    from pykueue.apiserver.store.log import StoreError
    from pykueue.apiserver.store.salvage import salvage as rebuild

    try:
        result = rebuild(directory)
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    lines = [f"Kept {result.objects} objects ({result.rows} versions)."]
    lines += [f"Reading stopped at: {result.fault}"] if result.fault else []
    lines.append(f"The damaged database is now {result.moved_to}")
    report = {"objects": result.objects, "versions": result.rows, "fault": str(result.fault or "")}
    outputs.show_report(report | {"damagedDatabase": str(result.moved_to)}, lines, output)
