"""Work grows with the length of a text and with nothing else, at every entry of a parser.

The processor time of a text is compared with that of a text four times as long. A quadratic
parser needs sixteen times as long. The machine may be busy, so the smallest of several times
counts, and only a parser that is too slow every time fails, and again with a text sixteen times
as long. A text that is refused for its length proves nothing.
"""

import contextlib
import gc
import time

import pytest
from tests.cost.entries import ENTRIES

from pykueue.api.errors import ApiError

pytestmark = pytest.mark.untraced

FACTOR = 4
LARGEST_RATIO = 9  # three for every doubling: caches are shared with whatever else runs
SHORT_SECONDS = 0.002
LONGEST = 1 << 17


def seconds(call):
    """The processor time of a call, without collections of a large heap."""
    gc.disable()
    began = time.thread_time()
    try:
        with contextlib.suppress(ApiError, ValueError):  # a refusal is an answer
            call()
        return time.thread_time() - began
    finally:
        gc.enable()


def best_of(entry, length, attempts):
    return min(seconds(entry(length)) for _ in range(attempts))


def measured_length(entry):
    """A length whose work can be measured; the longest one if the work does not grow."""
    length = 256
    while length < LONGEST and best_of(entry, length, 3) < SHORT_SECONDS:
        length *= 2
    return length


@pytest.mark.parametrize("name", ENTRIES)
def test_work_grows_with_the_length(name):
    entry = ENTRIES[name]
    length = measured_length(entry)
    for attempts in (1, 2, 4, 8, 16):
        short, long = best_of(entry, length, attempts), best_of(entry, FACTOR * length, attempts)
        if long < max(LARGEST_RATIO * short, FACTOR * SHORT_SECONDS):
            return
    if long < best_of(entry, FACTOR * FACTOR * length, 3) < LARGEST_RATIO * long:
        return  # a step, as where the memory of a text no longer fits a cache; growth goes on
    pytest.fail(f"{length} characters need {short * 1000:.1f} ms, {FACTOR * length} need {long * 1000:.1f} ms")
