"""Keep what is readable of a damaged database: the longest prefix of the log whose rows are what was written.

The damaged files are moved aside, never changed. Versions of the new database begin far above all old ones, so that no
client takes what it saw before for what it sees now. Called by `pykueue salvage`.
"""

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pykueue.apiserver.store import sqlite
from pykueue.apiserver.store.lock import DirectoryLock
from pykueue.apiserver.store.log import StoreError
from pykueue.apiserver.store.rows import Key, Row

_LEAP = 1_000_000
_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    rows: int
    objects: int
    fault: str
    """Why reading stopped; "" if it reached the end."""
    moved_to: Path


def salvage(directory: Path) -> Salvaged:
    database = directory / sqlite.DATABASE
    if not database.exists():
        raise StoreError(f"There is no database in {directory}: {sqlite.DATABASE} is missing.")
    lock = DirectoryLock(directory)
    try:
        aside = _move_aside(database)
        return _copy_readable(aside, database)
    finally:
        lock.release()


def _move_aside(database: Path) -> Path:
    aside = database.with_name(f"{database.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    for suffix in ("-wal", "-shm", ""):
        part = database.with_name(database.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return aside


def _copy_readable(damaged: Path, database: Path) -> Salvaged:
    reader = _Reader(damaged)
    connection = sqlite.connect(database)
    count, newest = 0, 0
    alive: set[Key] = set()
    try:
        sqlite.create_tables(connection)
        batch: list[Row] = []
        for row in reader:
            count, newest = count + 1, row.revision
            (alive.discard if row.is_deleted else alive.add)(row.key)
            batch.append(row)
            if len(batch) == _BATCH:
                _insert(connection, batch)
                batch = []
        _insert(connection, batch)
        connection.execute("UPDATE facts SET value = ? WHERE name = 'floor'", (str(newest + _LEAP),))
    finally:
        connection.close()
    return Salvaged(rows=count, objects=len(alive), fault=reader.fault, moved_to=damaged)


def _insert(connection: sqlite3.Connection, rows: list[Row]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    sqlite.insert_rows(connection, rows)
    connection.execute("COMMIT")


class _Reader:
    """Rows until the first fault, which is remembered."""

    def __init__(self, path: Path) -> None:
        self.fault = ""
        self._path = path

    def __iter__(self) -> Iterator[Row]:
        connection = sqlite3.connect(self._path, isolation_level=None)
        try:
            yield from sqlite.read_rows(connection)
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            self.fault = str(error)
        finally:
            connection.close()
