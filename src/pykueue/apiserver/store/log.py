"""The interface below the store: a durable log of rows, and its errors.

`SqliteLog` and `MemoryLog` implement it.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from pykueue.apiserver.store.rows import Row


class StoreError(Exception):
    """The data cannot be read or written. The message says which data, why, and what to do."""


class StoreDamagedError(StoreError):
    """The file contains data that pykueue did not write."""


class StoreInUseError(StoreError):
    """Another process uses the same data."""


class Log(Protocol):
    floor: int
    """Changes up to this revision are no longer in the log."""

    may_block: bool
    """Whether `commit` waits for a disk. Then it is called in a thread."""

    def load(self) -> Iterator[Row]:
        """All rows, sorted by revision."""
        ...

    def commit(self, rows: Sequence[Row], dead: Sequence[int], floor: int) -> None:
        """Append rows, delete the dead revisions and set the floor, in one durable transaction.

        StoreError if it failed; then nothing was changed.
        """
        ...

    def close(self) -> None: ...
