"""The durable log: one append-only table in SQLite, the row id is the resourceVersion.

WAL with synchronous=FULL: a commit is on the disk when it returns. Each row has a checksum,
because SQLite detects torn pages but not flipped bits. Dead rows are deleted in the transactions
that insert new rows, so there is no separate compaction.
"""

import contextlib
import json
import sqlite3
import uuid
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pykueue.apiserver.store.lock import DirectoryLock
from pykueue.apiserver.store.log import StoreDamagedError, StoreError
from pykueue.apiserver.store.rows import Row, StoreKey

DATABASE = "store.db"
MARKER = "store.json"
FORMAT = 1
_MOST_EXACT = 64
_MOST_ITEMS = 128
"""Rows or revisions in one statement: an old SQLite has 999 parameters, and a row six."""

Item = TypeVar("Item")

_TABLES = """
CREATE TABLE log (
  revision INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  previous INTEGER NOT NULL,
  is_deleted INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  data BLOB NOT NULL
);
CREATE UNIQUE INDEX log_by_key ON log (key, previous);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class SqliteLog:
    """The log in one directory, which is locked against other processes while the log is open."""

    may_block = True

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = directory / DATABASE
        self._marker = directory / MARKER
        self._lock = DirectoryLock(directory)
        try:
            self._connection = self._open()
            self.floor = int(self._fact("floor"))
        except BaseException:
            self._lock.release()
            raise

    def load(self) -> Iterator[Row]:
        try:
            yield from read_rows(self._connection)
        except (sqlite3.DatabaseError, ValueError) as error:
            raise self._damaged(str(error)) from error

    def commit(self, rows: Sequence[Row], dead: Sequence[int], floor: int) -> None:
        try:
            if dead or len(rows) > _MOST_EXACT:
                self._write(rows, dead, floor)
            else:
                insert_rows(self._connection, rows)  # one statement is a transaction of its own
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            if rows and self._has(rows[-1].revision):
                return  # SQLite reported an error, but the rows are stored
            raise self._write_error(error) from error
        self.floor = floor

    def _write(self, rows: Sequence[Row], dead: Sequence[int], floor: int) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        if dead:  # first: a key whose tombstone is deleted starts again with `previous` 0
            _delete_rows(self._connection, dead)
            self._connection.execute("UPDATE facts SET value = ? WHERE name = 'floor'", (str(floor),))
        insert_rows(self._connection, rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()
        self._lock.release()

    def _open(self) -> sqlite3.Connection:
        is_new = not self.path.exists() or self.path.stat().st_size == 0
        if is_new and self._marker.exists():
            raise self._damaged(f"{self._marker.name} says that data were kept here, but the database is gone or empty")
        try:
            connection = connect(self.path)
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                if self._marker.exists():
                    raise self._damaged("it has no tables")
                create_tables(connection)  # the file is new, or its first start was killed
            fault = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if fault != "ok":
                raise self._damaged(str(fault))
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error
        self._connection = connection
        if self._fact("format") != str(FORMAT):
            raise StoreError(f"{self.path} was written by another version of pykueue (format {self._fact('format')})")
        self._marker.write_text(json.dumps({"id": self._fact("id"), "database": DATABASE}) + "\n")
        return connection

    def _fact(self, name: str) -> str:
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise self._damaged(f"the fact {name!r} is missing")
        return str(row[0])

    def _has(self, revision: int) -> bool:
        with contextlib.suppress(sqlite3.Error):
            row = self._connection.execute("SELECT 1 FROM log WHERE revision = ?", (revision,)).fetchone()
            return row is not None
        return False

    def _damaged(self, what: str) -> StoreDamagedError:
        return StoreDamagedError(
            f"The database {self.path} is damaged: {what}. Nothing was changed. Put back a copy of the data directory, "
            f"or keep what is still readable with: pykueue salvage {self.path.parent}"
        )

    def _write_error(self, error: sqlite3.Error) -> StoreError:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return StoreError(
                f"No space is left for {self.path}: the write was refused. Free some space and try again."
            )
        return StoreError(f"Writing to {self.path} failed, nothing of it was kept: {error}")


def connect(path: Path) -> sqlite3.Connection:
    statements = 2 * _MOST_EXACT + 16  # of every length, and the others
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=statements)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    path.chmod(0o600)
    return connection


def create_tables(connection: sqlite3.Connection) -> None:
    connection.executescript("BEGIN;" + _TABLES)
    facts = {"format": str(FORMAT), "id": str(uuid.uuid4()), "floor": "0"}
    connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
    connection.execute("COMMIT")


def insert_rows(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    insert = "INSERT INTO log (revision, key, previous, is_deleted, checksum, data) VALUES "
    for part in _in_parts(rows):
        values: list[Any] = []
        for row in part:
            key = str(row.key)
            values += (row.revision, key, row.previous, row.is_deleted, checksum(row, key), row.data)
        connection.execute(insert + ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(part)), values)


def _delete_rows(connection: sqlite3.Connection, revisions: Sequence[int]) -> None:
    for part in _in_parts(revisions):
        connection.execute(f"DELETE FROM log WHERE revision IN ({', '.join('?' * len(part))})", part)  # noqa: S608 - only question marks


def _in_parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items of one statement after another.

    Python waits for its interpreter lock after each statement, up to a whole switch interval if
    the event loop is busy, so there should be few. SQLite prepares a statement for each length, so
    the lengths of longer ones are powers of two.
    """
    start = 0
    while left := len(items) - start:
        length = left if left <= _MOST_EXACT else min(1 << (left.bit_length() - 1), _MOST_ITEMS)
        yield items[start : start + length]
        start += length


def read_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """All rows by revision; ValueError at the first row whose checksum is wrong."""
    query = "SELECT revision, key, previous, is_deleted, checksum, data FROM log ORDER BY revision"
    for revision, key, previous, is_deleted, expected, data in connection.execute(query):
        row = Row(revision, StoreKey.parse(key), previous, bool(is_deleted), data)
        if checksum(row, key) != expected:
            raise ValueError(f"the row of revision {revision} fails its checksum")
        yield row


def checksum(row: Row, key: str) -> int:
    """The checksum of a row; `key` is the text of its key."""
    head = f"{row.revision} {key} {row.previous} {int(row.is_deleted)} "
    return zlib.crc32(row.data, zlib.crc32(head.encode()))
