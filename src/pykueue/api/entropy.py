"""The one source of random identities and names.

They come from the operating system, unless a simulation draws them from its seed: then a seed
gives the same run again.
"""

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

_source: random.Random = random.SystemRandom()


def new_uid() -> str:
    return str(uuid.UUID(int=_source.getrandbits(128), version=4))


def token(characters: str, length: int) -> str:
    return "".join(_source.choices(characters, k=length))


def hex_token(length: int) -> str:
    return f"{_source.getrandbits(4 * length):0{length}x}"


def uniform(low: float, high: float) -> float:
    return _source.uniform(low, high)


@contextmanager
def drawn_from(source: random.Random) -> Iterator[None]:
    """Draw from this source until the end of the block."""
    global _source  # noqa: PLW0603 - one source for the process is the purpose
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before
