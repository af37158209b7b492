"""One-time codes: a link with a code opens the page, and only its first use gets a token.

The code is in the fragment of the link, which browsers send to no server and which the page
removes from the address. A token in a link would stay in the history of the browser.
"""

import hashlib
import secrets
import time
from collections import deque
from collections.abc import Callable

LIFE_SECONDS = 3600.0
_MOST_CODES = 20
"""Of one user: nobody's codes end because another user creates many."""


class OneTimeCodes:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._tokens: dict[str, tuple[float, str]] = {}
        self._by_user: dict[str, deque[str]] = {}

    def create(self, token: str, user: str = "") -> str:
        """A code that is exchanged for the token once, within an hour."""
        code = secrets.token_urlsafe(24)
        digest = _digest(code)
        self._tokens[digest] = (self._now() + LIFE_SECONDS, token)
        codes = self._by_user.setdefault(user, deque())
        codes.append(digest)
        if len(codes) > _MOST_CODES:
            self._tokens.pop(codes.popleft(), None)
        return code

    def redeem(self, code: str) -> str | None:
        """The token; None if the code was used, has expired, or was never created."""
        expires_at, token = self._tokens.pop(_digest(code), (0.0, ""))
        return token if token and self._now() < expires_at else None


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogateescape")).hexdigest()
