"""A cache of functions of short texts.

Texts that users send may be megabytes long. A cache that keeps thousands of them would fill the
memory, so a long text is computed each time.
"""

import functools
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")
_LONGEST = 512


def cached(entries: int, longest: int = _LONGEST) -> Callable[[Callable[[str], _Result]], Callable[[str], _Result]]:
    """A decorator: caches the results for texts of at most `longest` characters."""

    def decorate(function: Callable[[str], _Result]) -> Callable[[str], _Result]:
        for_short_texts = functools.lru_cache(maxsize=entries)(function)

        @functools.wraps(function)
        def call(text: str) -> _Result:
            return for_short_texts(text) if len(text) <= longest else function(text)

        return call

    return decorate
