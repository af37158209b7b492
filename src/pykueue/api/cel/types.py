"""The types of CEL, which type can stand where another is expected, and their unification."""

from typing import Final

from pykueue.api.cel.errors import CelError

_LARGEST = 1000
"""Types in a type. Without a limit, maps with maps as keys double it with each step."""


class Type:
    """A type with its parameters: `list(string)`, `map(string, dyn)`, `optional_type(int)`.

    `kind` is "dyn", "error", "null", "type", "list", "map", "param", "struct", "opaque", or the
    name of a scalar.
    """

    __slots__ = ("kind", "name", "parameters", "size")

    def __init__(self, kind: str, name: str = "", parameters: tuple["Type", ...] = ()) -> None:
        self.kind = kind
        self.name = name or kind
        self.parameters = parameters
        self.size: int = 1 + sum(parameter.size for parameter in parameters)
        if self.size > _LARGEST:
            raise CelError("the type of the expression is too large")

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Type)
            and self.kind == other.kind
            and self.name == other.name
            and self.parameters == other.parameters
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.parameters))

    def __str__(self) -> str:
        if self.kind == "error":
            return "!error!"
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


DYN: Final = Type("dyn")
ERROR: Final = Type("error")
NULL: Final = Type("null")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
TIMESTAMP: Final = Type("timestamp")
DURATION: Final = Type("duration")
TYPE: Final = Type("type")
_SCALARS = {
    scalar.name: scalar for scalar in (DYN, NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION, TYPE)
}
_NULLABLE = frozenset({"opaque", "struct", "duration", "timestamp"})


def list_of(item: Type) -> Type:
    return Type("list", "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_of(instance: Type) -> Type:
    return Type("type", "type", (instance,))


def struct(name: str) -> Type:
    return Type("struct", name)


_parsed: dict[str, Type] = {}


def parse(text: str) -> Type:
    """Read a type of a signature: a letter is a parameter, a dotted name a type of a library."""
    if text not in _parsed:
        _parsed[text] = _parse(text)
    return _parsed[text]


def _parse(text: str) -> Type:
    if text in _SCALARS:
        return _SCALARS[text]
    if len(text) == 1:
        return Type("param", text)
    name, bracket, inner = text.partition("(")
    if not bracket:
        return struct(text) if text.startswith("kubernetes.") else Type("opaque", text)
    parameters = tuple(parse(part) for part in split(inner[:-1]))
    kind = "opaque" if name == "optional_type" else name
    return Type(kind, name, parameters)


def split(text: str) -> list[str]:
    """The parts between the commas that are not inside of brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()] if text else []


def unwrapped(wrapped: Type) -> tuple[Type, bool]:
    """The type inside of an optional, and whether it is one."""
    if wrapped.name == "optional_type":
        return wrapped.parameters[0], True
    return wrapped, False


class Substitution:
    """What is known of the type parameters of an expression."""

    def __init__(self) -> None:
        self._types: dict[str, Type] = {}
        self._changes: list[tuple[str, Type | None]] = []
        """What was bound, and what was bound before; a failed attempt is undone."""
        self._fresh = 0

    def fresh(self) -> Type:
        self._fresh += 1
        return Type("param", f"_var{self._fresh - 1}")

    def is_assignable(self, first: Type, second: Type) -> bool:
        return self.are_assignable((first,), (second,))

    def are_assignable(self, firsts: tuple[Type, ...], seconds: tuple[Type, ...]) -> bool:
        """Whether the types fit; only then are the parameters bound."""
        mark = len(self._changes)
        if self._fit_all(firsts, seconds):
            return True
        for name, before in reversed(self._changes[mark:]):
            if before is None:
                del self._types[name]
            else:
                self._types[name] = before
        del self._changes[mark:]
        return False

    def _set(self, parameter: Type, subject: Type) -> None:
        self._changes.append((parameter.name, self._types.get(parameter.name)))
        self._types[parameter.name] = subject

    def apply(self, subject: Type, *, to_dyn: bool = False) -> Type:
        """The type with its parameters replaced; unknown ones are dyn at the end of a check."""
        if subject.kind == "param":
            bound = self._types.get(subject.name)
            if bound is not None:
                return self.apply(bound, to_dyn=to_dyn)
            return DYN if to_dyn else subject
        if not subject.parameters:
            return subject
        parameters = tuple(self.apply(parameter, to_dyn=to_dyn) for parameter in subject.parameters)
        return Type(subject.kind, subject.name, parameters)

    def _fit_all(self, firsts: tuple[Type, ...], seconds: tuple[Type, ...]) -> bool:
        return len(firsts) == len(seconds) and all(map(self._fit, firsts, seconds))

    def _fit(self, first: Type, second: Type) -> bool:
        if second.kind == "param":
            fits, is_bound = self._bind(first, second)
            if fits or is_bound:
                return fits
        if first.kind == "param":
            return self._bind(second, first)[0]
        if first.kind in ("dyn", "error") or second.kind in ("dyn", "error"):
            return True
        if first.kind == "null":
            return second.kind == "null" or second.kind in _NULLABLE
        if second.kind == "null":
            return first.kind in _NULLABLE
        if first.kind == "type":
            return second.kind == "type"
        if first.kind in ("list", "map", "opaque"):
            return (
                first.kind == second.kind
                and first.name == second.name
                and self._fit_all(first.parameters, second.parameters)
            )
        return first == second

    def _bind(self, subject: Type, parameter: Type) -> tuple[bool, bool]:
        """Whether the subject can be the parameter, and whether the parameter was bound before."""
        if subject == parameter:
            return True, True
        bound = self._types.get(parameter.name)
        if bound is not None:
            if subject == bound:
                return True, True
            if not self._fit(subject, bound):
                return False, True
            general = subject if is_less_specific(subject, bound) else bound
            if not self._occurs(parameter, general):
                self._set(parameter, general)
            return True, True
        if self._occurs(parameter, subject):
            return False, False
        self._set(parameter, subject)
        return True, False

    def _occurs(self, parameter: Type, within: Type) -> bool:
        if parameter == within:
            return True
        if within.kind == "param":
            bound = self._types.get(within.name)
            return bound is not None and self._occurs(parameter, bound)
        return any(self._occurs(parameter, inner) for inner in within.parameters)


def is_less_specific(first: Type, second: Type) -> bool:
    """Whether the first type is the second, or matches it by dyn."""
    if first.kind in ("dyn", "param"):
        return True
    if second.kind in ("dyn", "param") or first.kind != second.kind or first.name != second.name:
        return False
    if first.kind == "type":
        return True
    return len(first.parameters) == len(second.parameters) and all(
        map(is_less_specific, first.parameters, second.parameters)
    )


def instantiated(types: tuple[Type, ...], substitution: Substitution) -> tuple[Type, ...]:
    """The types of an overload with fresh parameters."""
    fresh: dict[str, Type] = {}

    def replace(subject: Type) -> Type:
        if subject.kind == "param":
            if subject.name not in fresh:
                fresh[subject.name] = substitution.fresh()
            return fresh[subject.name]
        if not subject.parameters:
            return subject
        return Type(subject.kind, subject.name, tuple(map(replace, subject.parameters)))

    return tuple(map(replace, types))
