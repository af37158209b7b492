"""A log in memory, for tests and temporary clusters."""

from collections.abc import Iterator, Sequence

from pykueue.apiserver.store.rows import Row


class MemoryLog:
    may_block = False

    def __init__(self) -> None:
        self.floor = 0
        self._rows: dict[int, Row] = {}

    def load(self) -> Iterator[Row]:
        return iter(list(self._rows.values()))

    def commit(self, rows: Sequence[Row], dead: Sequence[int], floor: int) -> None:
        for row in rows:
            self._rows[row.revision] = row
        for revision in dead:
            self._rows.pop(revision, None)
        self.floor = floor

    def close(self) -> None:
        """Keeps the rows, so that a test can open another store on them."""
