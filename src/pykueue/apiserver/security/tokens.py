"""The token file: users and the hashes of their bearer tokens.

One line per token: `sha256:HASH,user,uid,"group1,group2"`, as in Kubernetes' `--token-auth-file`
but for the hash. A line with a token in clear, as Kubernetes has it, is read too; the next start
of the server replaces the token by its hash. A running server reads the file again when it
changes, so `pykueue user add` takes effect at once. Writers hold a lock, so none is lost.
"""

import csv
import hashlib
import io
import secrets
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.security import files

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
ADMIN_NAME = "pykueue-admin"
_REFRESH_SECONDS = 0.5
_HASH = "sha256:"


class TokenFileError(ValueError):
    """A line of the token file is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEntry:
    digest: str
    """The SHA-256 of the token, in hexadecimal."""
    user: str
    uid: str
    groups: tuple[str, ...] = ()


def read(path: Path) -> list[TokenEntry]:
    return [entry for entry, _is_clear in _read(path)]


def _read(path: Path) -> Iterator[tuple[TokenEntry, bool]]:
    """Every entry, and whether its token is in clear."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return
    for number, line in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not line or line[0].startswith("#"):
            continue
        if len(line) < 3 or not line[0]:
            raise TokenFileError(f'{path}:{number}: expected sha256:HASH,user,uid[,"group1,group2"]')
        groups = tuple(group.strip() for group in line[3].split(",") if group.strip()) if len(line) > 3 else ()
        is_clear = not line[0].startswith(_HASH)
        digest = digest_of(line[0]) if is_clear else line[0].removeprefix(_HASH)
        yield TokenEntry(digest=digest, user=line[1], uid=line[2], groups=groups), is_clear


def write(path: Path, entries: Iterable[TokenEntry]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for entry in entries:
        writer.writerow([_HASH + entry.digest, entry.user, entry.uid, ",".join(entry.groups)])
    files.write_private(path, text.getvalue())


def hash_clear_tokens(path: Path) -> None:
    """Replace tokens in clear by their hashes."""
    with files.locked(path):
        entries = [*_read(path)]
        if any(is_clear for _, is_clear in entries):
            write(path, [entry for entry, _ in entries])


def issue(path: Path, user: str, groups: tuple[str, ...] = (), *, current: str = "") -> str:
    """A token of the user: `current` if it is valid, else a new one. Others stay valid.

    `groups` are those of a new user.
    """
    with files.locked(path):
        entries = read(path)
        own = [entry for entry in entries if entry.user == user]
        if current and any(entry.digest == digest_of(current) for entry in own):
            return current
        token = secrets.token_urlsafe(32)
        uid, groups = (own[0].uid, own[0].groups) if own else (str(uuid.uuid4()), groups)
        write(path, [*entries, TokenEntry(digest=digest_of(token), user=user, uid=uid, groups=groups)])
        return token


def remove(path: Path, user: str) -> bool:
    """Remove all tokens of a user; False if there is none."""
    with files.locked(path):
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
        self._users: dict[str, UserInfo] = {}

    def user(self, token: str) -> UserInfo | None:
        """The user of a token. For an unknown token the file is checked again: it may be new."""
        digest = digest_of(token)
        self._refresh(is_due=digest not in self._users)
        return self._users.get(digest)

    def has_uid(self, uid: str) -> bool:
        """Whether a user of the file has this uid."""
        self._refresh(is_due=False)
        return any(user.uid == uid for user in self._users.values())

    def _refresh(self, *, is_due: bool) -> None:
        now = time.monotonic()
        if not is_due and now - self._refreshed_at < _REFRESH_SECONDS:
            return
        self._refreshed_at = now
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
        self._users = {entry.digest: _user(entry) for entry in entries}
        self._stamp = stamp


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _user(entry: TokenEntry) -> UserInfo:
    groups = tuple(dict.fromkeys((*entry.groups, AUTHENTICATED)))
    return UserInfo(name=entry.user, uid=entry.uid, groups=groups)
