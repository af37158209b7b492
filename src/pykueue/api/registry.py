"""The registry of all kinds that `api` defines, with their admission rules, in one Scheme."""

from msgspec.structs import replace

from pykueue.api.builtin import kinds as builtin_kinds
from pykueue.api.kueue import kinds as kueue_kinds
from pykueue.api.rules import table
from pykueue.api.scheme import Kind, Scheme


def scheme() -> Scheme:
    """A Scheme of its own for each caller, because a server registers its users' kinds in it."""
    return Scheme(map(_with_rules, [*builtin_kinds.kinds(), *kueue_kinds.kinds()]))


def _with_rules(kind: Kind) -> Kind:
    rules = table.rules_of(kind.group, kind.kind)
    return replace(kind, reader=rules.reader, defaulter=rules.defaulter, validator=rules.validator)
