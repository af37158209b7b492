"""What an expression with loops may cost for given values: a bound, without evaluating it.

The CEL library stops an expression after so many steps of its loops, but one step may compare or
copy a value of any size. Kubernetes counts both when an expression runs. Here the values are known
before: each reference inside of a loop may be read as often as the loops around it run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pykueue.api import cel_tokens
from pykueue.api.cel_tokens import CelToken

MOST_STEPS = 10_000
"""The library's own limit of the steps of all loops of an expression."""
LARGEST_COST = 30_000_000
"""Of one reference: at most a second."""
_SMALL = 2000
"""The library's own limit is enough for values of this size."""
_CHARACTERS_PER_UNIT = 64
_LOOPS = frozenset(
    {
        *("all", "exists", "exists_one", "existsOne", "map", "filter"),
        *("transformList", "transformMap", "transformMapEntry"),
    }
)
_SPLITTING = frozenset({"split", "findAll"})
_CHEAP = _LOOPS | {"size"}
"""Members that do not read their whole value at once."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A variable that an expression reads, and the fields after its name."""

    path: tuple[str, ...]
    loops: int
    """How many loops there are around it, without those over the items of another loop."""
    is_nested: bool
    """Whether there is a loop over the items of another loop around it."""
    is_indexed: bool
    """Whether only an item of the value is read: then the largest one counts."""
    is_loop_variable: bool
    """Then the path is that of the list or map of the loop, empty if it is a result."""
    is_innermost: bool = False
    """Whether it is the variable of the innermost loop: all of its values are read once."""
    fields: tuple[str, ...] = ()
    """The fields of the item that are read."""


@dataclass(frozen=True, slots=True)
class Loops:
    """What an expression reads in its loops."""

    references: tuple[Reference, ...]
    lists: int
    """How often lists may become longer than the values have them: by `+`, or in literals."""
    splits: bool
    binds: bool
    """Whether other names than those of the variables may be values."""


def loops_of(text: str) -> Loops | None:
    """None if the expression has no loops."""
    tokens = cel_tokens.significant(text)
    if not any(token.text in _LOOPS for token in tokens):
        return None
    reader = _References(tokens)
    lists = 1 + sum(token.text == "+" for token in tokens)
    binds = any(token.text == "bind" for token in tokens)
    return Loops(tuple(reader.references), lists, splits=reader.has_loop_over_pieces(), binds=binds)


@dataclass(frozen=True, slots=True)
class _Loop:
    variables: tuple[str, ...]
    path: tuple[str, ...]
    """Of the list or map, empty if it is a result."""
    is_nested: bool
    """Whether it is a part of an item of another loop, so that both together read it once.

    The same holds for a list that is written in the expression.
    """


class _References:
    """Reads the tokens once, from left to right."""

    def __init__(self, tokens: list[CelToken]) -> None:
        self.references: list[Reference] = []
        self._tokens = tokens
        self._brackets: list[_Loop | None] = []
        """The open brackets, None if it is not that of a loop."""
        for position, token in enumerate(tokens):
            self._read(position, token)

    def has_loop_over_pieces(self) -> bool:
        """Whether a loop reads the pieces of a text, such as `self.a.split(',').all(…)`."""
        starts = [position for position, token in enumerate(self._tokens) if token.text in _SPLITTING]
        return any(self._text(self._closing(position + 1) + 2) in _LOOPS for position in starts)

    def _text(self, position: int) -> str:
        return self._tokens[position].text if 0 <= position < len(self._tokens) else ""

    def _read(self, position: int, token: CelToken) -> None:
        if token.text in ("(", "[", "{"):
            is_loop = token.text == "(" and self._text(position - 1) in _LOOPS and self._text(position - 2) == "."
            self._brackets.append(self._loop(position) if is_loop else None)
        elif token.text in (")", "]", "}") and self._brackets:
            self._brackets.pop()
        elif token.kind == "name" and not self._is_member(position) and self._text(position + 1) != "(":
            self._add(position, token.text)

    def _is_member(self, position: int) -> bool:
        before = self._text(position - 1)
        return before == "." or (before == "?" and self._text(position - 2) == ".")

    def _loop(self, position: int) -> _Loop:
        """The loop whose bracket is here: `self.a.all(x, …)` or `self.a.transformMap(k, v, …)`."""
        bracket, path = position, self._receiver(position - 3)
        outer = self._loop_of(path[0]) if path else None
        names: list[str] = []
        while self._text(position + 2) == "," and len(names) < 2:
            names.append(self._text(position + 1))
            position += 2
        is_literal = self._is_literal(bracket - 3)
        return _Loop(tuple(names), outer.path if outer else path, is_nested=outer is not None or is_literal)

    def _is_literal(self, position: int) -> bool:
        """Whether a list ends here that is written in the expression, so that it is short."""
        if self._text(position) != "]":
            return False
        before = self._opening(position) - 1
        return before < 0 or (
            self._tokens[before].kind not in ("name", "quoted") and self._text(before) not in (")", "]")
        )

    def _receiver(self, position: int) -> tuple[str, ...]:
        """The path that ends here. The results of calls are parts of what they are called on."""
        names: list[str] = []
        while position >= 0:
            is_call = self._text(position) == ")"
            if is_call:
                position = self._opening(position) - 1
            if position < 0 or self._tokens[position].kind not in ("name", "quoted"):
                return ()
            if not is_call:
                names.append(cel_tokens.field_name(self._text(position)))
            position -= 1
            position -= self._text(position) == "?"
            if self._text(position) != ".":
                return () if is_call else tuple(reversed(names))
            position -= 1
        return ()

    def _opening(self, position: int) -> int:
        depth = 0
        while position >= 0:
            depth += (self._text(position) in (")", "]", "}")) - (self._text(position) in ("(", "[", "{"))
            if depth == 0:
                return position
            position -= 1
        return -1

    def _loop_of(self, name: str) -> _Loop | None:
        return next((loop for loop in reversed(self._brackets) if loop and name in loop.variables), None)

    def _add(self, position: int, name: str) -> None:
        around = [loop for loop in self._brackets if loop]
        if not around:
            return
        loops = sum(not loop.is_nested for loop in around)
        is_nested = len(around) > loops
        path, position, is_read = self._fields(position + 1)
        if not is_read:
            return
        if (loop := self._loop_of(name)) is not None:
            self.references.append(
                Reference(
                    loop.path,
                    loops,
                    is_nested,
                    is_indexed=True,
                    is_loop_variable=True,
                    is_innermost=loop is around[-1],
                    fields=() if loop.is_nested else path,
                )
            )
            return
        fields: tuple[str, ...] = ()
        is_indexed = self._text(position) == "["
        if is_indexed:
            fields, _, is_read = self._fields(self._closing(position) + 1)
        if is_read:
            reference = Reference((name, *path), loops, is_nested, is_indexed, is_loop_variable=False, fields=fields)
            self.references.append(reference)

    def _fields(self, position: int) -> tuple[tuple[str, ...], int, bool]:
        """The fields that begin here, the position after them, and whether their value is read."""
        fields: list[str] = []
        while self._text(position) == ".":
            after = position + 1 + (self._text(position + 1) == "?")
            if self._text(after + 1) == "(":
                return tuple(fields), position, self._text(after) not in _CHEAP
            fields.append(cel_tokens.field_name(self._text(after)))
            position = after + 1
        return tuple(fields), position, True

    def _closing(self, position: int) -> int:
        depth = 0
        for after in range(position, len(self._tokens)):
            depth += (self._text(after) in ("(", "[", "{")) - (self._text(after) in (")", "]", "}"))
            if depth == 0:
                return after
        return len(self._tokens)


def exceeds(loops: Loops, variables: Mapping[str, Any]) -> bool:
    """Whether the expression may cost too much with these values."""
    sizes = _Sizes(variables)
    if sizes.total <= _SMALL:
        return False
    longest = (sizes.longest_text if loops.splits else sizes.longest) * loops.lists + 1
    for reference in loops.references:
        steps = longest**reference.loops
        if reference.is_nested:
            steps = max(steps, sizes.count * longest ** max(reference.loops - 1, 0))
        steps = min(steps, MOST_STEPS)
        is_unknown = not reference.path or (loops.binds and reference.path[0] not in variables)
        size = sizes.total if is_unknown else _size_at(variables, reference)
        if is_unknown and reference.is_loop_variable:
            size = sizes.largest_item
        size *= steps
        if reference.is_innermost:
            size = min(size, sizes.total * longest ** max(reference.loops - 1, 0))
        if size > LARGEST_COST:
            return True
    return False


def _size_at(variables: Mapping[str, Any], reference: Reference) -> int:
    value = _at(variables, reference.path)
    if reference.is_indexed and isinstance(value, dict | list):
        return max((size_of(_at(item, reference.fields)) for item in _items(value)), default=1)
    return size_of(value)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(value, dict | Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _items(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def size_of(value: Any) -> int:
    """Items and fields, and characters of texts."""
    size, stack = 0, [value]
    while stack:
        part = stack.pop()
        size += 1
        if isinstance(part, str | bytes):
            size += len(part) // _CHARACTERS_PER_UNIT
        elif isinstance(part, dict | list):
            stack.extend(_items(part))
    return size


class _Sizes:
    """The largest parts of some values."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.longest = self.longest_text = self.total = self.largest_item = self.count = 0
        for value in variables.values():
            self.total += self._measure(value)

    def _measure(self, value: Any) -> int:
        """The size of the value. Bodies are nested at most a hundred levels."""
        self.count += 1
        if isinstance(value, str | bytes):
            self.longest_text = max(self.longest_text, len(value))
            return 1 + len(value) // _CHARACTERS_PER_UNIT
        if not isinstance(value, dict | list):
            return 1
        self.longest = max(self.longest, len(value))
        sizes = [self._measure(item) for item in _items(value)]
        self.largest_item = max(self.largest_item, *sizes) if sizes else self.largest_item
        return 1 + sum(sizes)
