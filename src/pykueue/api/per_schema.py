"""Remembers an answer for each schema, because every write asks the same questions of the same schemas.

Schemas are never changed once they are registered. An entry keeps its schema alive, so that an identity is not reused while it is known
here. Used by the walks.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from pykueue.api.scheme import Schema

_MOST = 200_000
_Answer = TypeVar("_Answer")


class PerSchema(Generic[_Answer]):
    """A function of a schema that is computed once for each."""

    def __init__(self, compute: Callable[[Schema], _Answer]) -> None:
        self._compute = compute
        self._answers: dict[int, tuple[Schema, _Answer]] = {}

    def __call__(self, schema: Schema) -> _Answer:
        entry = self._answers.get(id(schema))
        if entry is None:
            if len(self._answers) >= _MOST:
                self._answers.clear()
            entry = self._answers[id(schema)] = (schema, self._compute(schema))
        return entry[1]
