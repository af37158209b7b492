"""Every kind that we know, in one Scheme. Called once by whoever serves, reads or prints kinds."""

from pykueue.api.builtin import kinds as builtin_kinds
from pykueue.api.kueue import kinds as kueue_kinds
from pykueue.api.scheme import Scheme


def scheme() -> Scheme:
    """A register of its own for each caller, because a server adds its users' kinds to it."""
    return Scheme([*builtin_kinds.kinds(), *kueue_kinds.kinds()])
