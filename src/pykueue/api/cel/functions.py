"""Declarations of functions: their overloads, what these do and what they cost."""

from collections.abc import Callable
from typing import Any

from pykueue.api.cel import types, values
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.types import Type

Cost = Callable[..., int]


class Overload:
    """One signature of a function.

    `cost` is computed from the arguments before the call, `result_cost` from the result.
    """

    __slots__ = ("accepts", "cost", "identifier", "implementation", "is_member", "parameters", "result", "result_cost")

    def __init__(
        self,
        identifier: str,
        signature: str,
        implementation: Callable[..., Any],
        *,
        cost: Cost | None,
        result_cost: Cost | None,
    ) -> None:
        self.identifier = identifier
        arguments, _, result = signature.partition(" -> ")
        receiver, _, rest = arguments.rpartition(".(") if not arguments.startswith("(") else ("", "", arguments[1:])
        self.is_member = bool(receiver)
        texts = [*([receiver] if receiver else []), *types.split(rest[:-1])]
        self.parameters = tuple(types.parse(text) for text in texts)
        self.result = types.parse(result)
        self.implementation = implementation
        self.cost = cost
        self.result_cost = result_cost
        self.accepts = tuple(_accepted(parameter) for parameter in self.parameters)


def _accepted(parameter: Type) -> str:
    """The name of the values that a parameter takes, "" for any."""
    return "" if parameter.kind in ("dyn", "param") else parameter.name


class Functions:
    """Functions by name. A library is a function that adds its declarations here."""

    def __init__(self) -> None:
        self.overloads: dict[str, list[Overload]] = {}

    def add(
        self,
        name: str,
        identifier: str,
        signature: str,
        implementation: Callable[..., Any],
        *,
        cost: Cost | None = None,
        result_cost: Cost | None = None,
    ) -> None:
        """Declare an overload: "string.(string) -> bool" is a member of strings.

        Without a cost a call costs 1.
        """
        overload = Overload(identifier, signature, implementation, cost=cost, result_cost=result_cost)
        self.overloads.setdefault(name, []).append(overload)


class Dispatcher:
    """Finds the overload for the classes of the arguments of one call, each class once."""

    __slots__ = ("by_classes", "function", "overloads")

    def __init__(self, function: str, overloads: list[Overload]) -> None:
        self.function = function
        self.overloads = overloads
        self.by_classes: dict[tuple[type, ...], Overload] = {}

    def find(self, *arguments: Any) -> Overload:
        kinds = tuple(map(type, arguments))
        overload = self.by_classes.get(kinds)
        if overload is None:
            overload = self.by_classes[kinds] = self._resolve(kinds)
        return overload

    def _resolve(self, kinds: tuple[type, ...]) -> Overload:
        names = tuple(map(values.runtime_kind, kinds))
        for overload in self.overloads:
            if all(accepted in ("", name) for accepted, name in zip(overload.accepts, names, strict=True)):
                return overload
        signature = f": {self.function}({', '.join(names)})" if self.function.isidentifier() else ""
        raise CelError(f"no such overload{signature}")
