"""The token file: bearer tokens and their users, in the format of Kubernetes' `--token-auth-file`.

One line per user: `token,user,uid,"group1,group2"`. A running server reads the file again when it
changes, so `pykueue user add` takes effect at once. Tokens are compared as hashes, so the timing
reveals nothing about them.
"""

import csv
import hashlib
import io
import secrets
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.security import files

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
ADMIN_NAME = "pykueue-admin"
_REFRESH_SECONDS = 0.5


class TokenFileError(ValueError):
    """A line of the token file is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEntry:
    token: str
    user: str
    uid: str
    groups: tuple[str, ...] = ()


def read(path: Path) -> list[TokenEntry]:
    entries = []
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    for number, line in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not line or line[0].startswith("#"):
            continue
        if len(line) < 3 or not line[0]:
            raise TokenFileError(f'{path}:{number}: expected token,user,uid[,"group1,group2"]')
        groups = tuple(group.strip() for group in line[3].split(",") if group.strip()) if len(line) > 3 else ()
        entries.append(TokenEntry(token=line[0], user=line[1], uid=line[2], groups=groups))
    return entries


def write(path: Path, entries: Iterable[TokenEntry]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for entry in entries:
        writer.writerow([entry.token, entry.user, entry.uid, ",".join(entry.groups)])
    files.write_private(path, text.getvalue())


def ensure(path: Path, user: str, groups: tuple[str, ...] = ()) -> TokenEntry:
    """The entry of a user, created with a new token if there is none."""
    entries = read(path)
    for entry in entries:
        if entry.user == user:
            return entry
    entry = TokenEntry(token=secrets.token_urlsafe(32), user=user, uid=str(uuid.uuid4()), groups=groups)
    write(path, [*entries, entry])
    return entry


def remove(path: Path, user: str) -> bool:
    entries = read(path)
    others = [entry for entry in entries if entry.user != user]
    if len(others) < len(entries):
        write(path, others)
    return len(others) < len(entries)


class Tokens:
    """Users by token, read again when the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._refreshed_at = 0.0
        self._users: dict[bytes, UserInfo] = {}

    def user(self, token: str) -> UserInfo | None:
        """The user of a token. For an unknown token the file is checked again: it may be new."""
        digest = _digest(token)
        now = time.monotonic()
        if digest not in self._users or now - self._refreshed_at >= _REFRESH_SECONDS:
            self._refreshed_at = now
            self._refresh()
        return self._users.get(digest)

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._users, self._stamp = {}, None
            return
        stamp = (stat.st_mtime_ns, stat.st_ino)
        if stamp == self._stamp:
            return
        try:
            entries = read(self._path)
        except TokenFileError:
            return
        self._users = {_digest(entry.token): _user(entry) for entry in entries}
        self._stamp = stamp


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _user(entry: TokenEntry) -> UserInfo:
    groups = tuple(dict.fromkeys((*entry.groups, AUTHENTICATED)))
    return UserInfo(name=entry.user, uid=entry.uid, groups=groups)
