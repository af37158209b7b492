"""The credit of a connection, from which frames that ask for nothing are paid."""

from collections.abc import Callable

from pykueue.apiserver.http2.frames import ENHANCE_YOUR_CALM, Http2Error

MOST_CREDIT = 1000
CREDIT_PER_SECOND = 100


class Credit:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = float(MOST_CREDIT)
        self._looked_at = clock()

    def pay(self, cost: int) -> None:
        """Http2Error if the credit is used up."""
        self._left -= cost
        if self._left < 0:
            now = self._clock()
            self.earn((now - self._looked_at) * CREDIT_PER_SECOND)
            self._looked_at = now
            if self._left < 0:
                raise Http2Error(ENHANCE_YOUR_CALM, "too many frames that ask for nothing")

    def earn(self, credit: float) -> None:
        self._left = min(self._left + credit, MOST_CREDIT)
