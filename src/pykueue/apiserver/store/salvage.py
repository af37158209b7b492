"""Rebuilds a damaged database from the longest prefix of its log that is still readable.

The damaged files are renamed, never changed. Revisions of the new database start far above all old
ones, so that a client never confuses an old resourceVersion with a new one. Called by
`pykueue salvage`.
"""

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pykueue.apiserver.store import sqlite
from pykueue.apiserver.store.lock import DirectoryLock
from pykueue.apiserver.store.log import StoreError
from pykueue.apiserver.store.rows import Row, StoreKey

_REVISION_GAP = 1_000_000
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
        damaged = _rename_damaged(database)
        return _copy_readable(damaged, database)
    finally:
        lock.release()


def _rename_damaged(database: Path) -> Path:
    damaged = database.with_name(f"{database.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    for suffix in ("-wal", "-shm", ""):
        part = database.with_name(database.name + suffix)
        if part.exists():
            part.rename(damaged.with_name(damaged.name + suffix))
    return damaged


def _copy_readable(damaged: Path, database: Path) -> Salvaged:
    readable = _ReadableRows(damaged)
    connection = sqlite.connect(database)
    count, newest = 0, 0
    alive: set[StoreKey] = set()
    try:
        sqlite.create_tables(connection)
        batch: list[Row] = []
        for row in readable:
            count, newest = count + 1, row.revision
            (alive.discard if row.is_deleted else alive.add)(row.key)
            batch.append(row)
            if len(batch) == _BATCH:
                _insert(connection, batch)
                batch = []
        _insert(connection, batch)
        connection.execute("UPDATE facts SET value = ? WHERE name = 'floor'", (str(newest + _REVISION_GAP),))
    finally:
        connection.close()
    return Salvaged(rows=count, objects=len(alive), fault=readable.fault, moved_to=damaged)


def _insert(connection: sqlite3.Connection, rows: list[Row]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    sqlite.insert_rows(connection, rows)
    connection.execute("COMMIT")


class _ReadableRows:
    """Iterates over rows until the first fault and keeps that in `fault`."""

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
