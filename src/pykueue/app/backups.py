"""Backups of a data directory: one archive with the database, the users and the certificates.

SQLite copies the database as it is at one moment, while `pykueue up` goes on writing. `cli.backup`
calls both functions.
"""

import os
import shutil
import sqlite3
import tarfile
import tempfile
from pathlib import Path

from pykueue.apiserver.security import files
from pykueue.apiserver.store.log import StoreError
from pykueue.apiserver.store.sqlite import DATABASE, MARKER

_CONTENT = (DATABASE, MARKER, "tokens.csv", "kubeconfig", "pki")


class BackupError(Exception):
    """The archive is none of ours, or the directory has data already."""


def write(directory: Path, target: Path) -> int:
    """Write the archive, and return the number of objects in it.

    FileExistsError if the target exists.
    """
    if not (directory / DATABASE).exists():
        raise StoreError(f"there are no data in {directory}; `pykueue up` creates them")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as temporary, os.fdopen(descriptor, "wb") as file:
            copy = Path(temporary) / DATABASE
            _copy_database(directory / DATABASE, copy)
            with tarfile.open(fileobj=file, mode="w:gz") as archive:
                for name in _CONTENT:
                    source = copy if name == DATABASE else directory / name
                    if source.exists():
                        archive.add(source, arcname=name)
            file.flush()
            os.fsync(file.fileno())
            return count_objects(copy)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def read(source: Path, directory: Path) -> int:
    """Unpack an archive into a directory without data, and return the number of objects."""
    if directory.exists() and any(directory.iterdir()):
        raise BackupError(f"{directory} has data; restore into another directory, or move it away first")
    parent = directory.parent
    parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=parent))
    try:
        _unpack(source, temporary)
        count = count_objects(temporary / DATABASE)
        if directory.exists():
            directory.rmdir()
        temporary.rename(directory)
    except sqlite3.DatabaseError as error:
        raise BackupError(f"{source}: the database in it is damaged: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return count


def _unpack(source: Path, directory: Path) -> None:
    try:
        with tarfile.open(source) as archive:
            members = archive.getmembers()
            strange = [member.name for member in members if member.name.split("/")[0] not in _CONTENT]
            if strange or DATABASE not in archive.getnames():
                raise BackupError(f"{source} is not a backup of pykueue")
            archive.extractall(directory, members, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BackupError(f"{source} cannot be read as a backup: {error}") from None
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    files.private_directory(directory)


def _copy_database(source: Path, target: Path) -> None:
    """A copy of the committed rows at one moment."""
    with (
        sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True) as database,
        sqlite3.connect(target) as copy,
    ):
        database.backup(copy)
    database.close()
    copy.close()


def count_objects(database: Path) -> int:
    """The number of objects; sqlite3.DatabaseError if the database is damaged."""
    connection = sqlite3.connect(database)
    try:
        fault = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if fault != "ok":
            raise sqlite3.DatabaseError(fault)
        query = "SELECT count(*) FROM log AS newest WHERE is_deleted = 0 AND NOT EXISTS (SELECT 1 FROM log WHERE key = newest.key AND previous = newest.revision)"
        return int(connection.execute(query).fetchone()[0])
    finally:
        connection.close()
