"""One-time codes: a link with a code opens the page, and only its first use gets a token.

The code is in the fragment of the link, which browsers send to no server and which the page
removes from the address. A token in a link would stay in the history of the browser.
"""

import hashlib
import secrets
import time
from collections.abc import Callable

LIFE_SECONDS = 3600.0
_MOST_CODES = 1000


class OneTimeCodes:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._tokens: dict[str, tuple[float, str]] = {}

    def create(self, token: str) -> str:
        """A code that is exchanged for the token once, within an hour."""
        code = secrets.token_urlsafe(24)
        self._tokens[_digest(code)] = (self._now() + LIFE_SECONDS, token)
        while len(self._tokens) > _MOST_CODES:
            del self._tokens[next(iter(self._tokens))]
        return code

    def redeem(self, code: str) -> str | None:
        """The token; None if the code was used, has expired, or was never created."""
        expires_at, token = self._tokens.pop(_digest(code), (0.0, ""))
        return token if token and self._now() < expires_at else None


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogateescape")).hexdigest()
