"""The seam under the store: a log that keeps rows for good, and the errors that it may raise. Two implementations."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from pykueue.apiserver.store.rows import Row


class StoreError(Exception):
    """The data cannot be read or written; the message says which, why, and what to do."""


class StoreDamagedError(StoreError):
    """The file holds something that we did not write."""


class StoreInUseError(StoreError):
    """Another process works on the same data."""


class Log(Protocol):
    floor: int
    """History below this revision has been given up."""

    may_block: bool
    """`commit` waits for a disk: call it in a thread."""

    def load(self) -> Iterator[Row]:
        """Every row kept, in the order of revisions."""
        ...

    def commit(self, rows: Sequence[Row], dead: Sequence[int], floor: int) -> None:
        """Append rows, drop the dead revisions and raise the floor: all of it durably, or nothing and a StoreError."""
        ...

    def close(self) -> None: ...
