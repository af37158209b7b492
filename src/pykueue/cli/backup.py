"""`pykueue backup FILE` and `pykueue restore FILE`: the data of `pykueue up` in one archive."""

from pathlib import Path

import click

from pykueue.cli import output as outputs
from pykueue.cli.data_directory import DataDirectory, with_data_dir


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@outputs.with_report_output
@with_data_dir
def backup(*, file: Path, output: str, directory: DataDirectory) -> None:
    """Copy the data of `pykueue up` into one file.

    The file has all objects, users and certificates as they are at one moment, and is as secret as
    they are. Logs and volumes of pods are not in it. It works while `pykueue up` runs.
    """
    from pykueue.apiserver.store.log import StoreError
    from pykueue.app import backups

    try:
        count = backups.write(directory.path, file)
    except FileExistsError:
        raise click.ClickException(f"{file} exists; name a new file") from None
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    report = {"file": str(file), "dataDirectory": str(directory.path), "objects": count}
    outputs.show_report(report, [f"{file}: {count} objects of {directory.path}"], output)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@outputs.with_report_output
@with_data_dir
def restore(*, file: Path, output: str, directory: DataDirectory) -> None:
    """Write the data of a backup to a new directory.

    The data directory must be empty or not exist: nothing is overwritten.
    """
    from pykueue.app import backups

    try:
        count = backups.read(file, directory.path)
    except backups.BackupError as error:
        raise click.ClickException(str(error)) from None
    report = {"file": str(file), "dataDirectory": str(directory.path), "objects": count}
    line = f"{directory.path}: {count} objects of {file}. Start it with `pykueue up{directory.options}`."
    outputs.show_report(report, [line], output)
