"""The token file: who holds which bearer token, in the format of Kubernetes' `--token-auth-file`.

One line a user: `token,user,uid,"group1,group2"`. The running server reads the file again when it has changed, so that
`pykueue user add` works while it runs. Tokens are compared as hashes, so timing tells nothing about them.
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

from pykueue.apiserver.calls import User
from pykueue.apiserver.security import files

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
ADMIN_NAME = "pykueue-admin"
_LOOK_AGAIN_SECONDS = 0.5


class TokenFileError(ValueError):
    """A line of the token file cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    token: str
    user: str
    uid: str
    groups: tuple[str, ...] = ()


def read(path: Path) -> list[Entry]:
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
        entries.append(Entry(token=line[0], user=line[1], uid=line[2], groups=groups))
    return entries


def write(path: Path, entries: Iterable[Entry]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for entry in entries:
        writer.writerow([entry.token, entry.user, entry.uid, ",".join(entry.groups)])
    files.write_private(path, text.getvalue())


def ensure(path: Path, user: str, groups: tuple[str, ...] = ()) -> Entry:
    """The entry of a user, added with a new token when there is none."""
    entries = read(path)
    for entry in entries:
        if entry.user == user:
            return entry
    entry = Entry(token=secrets.token_urlsafe(32), user=user, uid=str(uuid.uuid4()), groups=groups)
    write(path, [*entries, entry])
    return entry


def remove(path: Path, user: str) -> bool:
    entries = read(path)
    kept = [entry for entry in entries if entry.user != user]
    if len(kept) < len(entries):
        write(path, kept)
    return len(kept) < len(entries)


class Tokens:
    """Users by token, following the file as it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._looked_at = 0.0
        self._users: dict[bytes, User] = {}

    def user(self, token: str) -> User | None:
        """Who holds a token. An unknown one may have been added a moment ago, so the file is looked at again."""
        digest = _digest(token)
        now = time.monotonic()
        if digest not in self._users or now - self._looked_at >= _LOOK_AGAIN_SECONDS:
            self._looked_at = now
            self._follow()
        return self._users.get(digest)

    def _follow(self) -> None:
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


def _user(entry: Entry) -> User:
    groups = tuple(dict.fromkeys((*entry.groups, AUTHENTICATED)))
    return User(name=entry.user, uid=entry.uid, groups=groups)
