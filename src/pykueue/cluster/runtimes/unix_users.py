"""Unix users for namespaces that several people share this machine with.

Each such namespace has a uid of its own, without an account. The uids are in a file, because files
that jobs have written belong to them: a uid is never given to another namespace.
"""

import contextlib
import os
import pwd
from pathlib import Path

import msgspec

from pykueue.cluster.runtimes.sandbox import UnixUser

FIRST_UID = 2_100_000_000
"""Above the ranges of accounts, of user namespaces (/etc/subuid) and of directory services."""


class AccountError(Exception):
    """There is no such account on this machine."""


def account(name: str) -> UnixUser:
    """The user of an account of this machine, with its groups."""
    try:
        entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except KeyError:
        raise AccountError(f"this machine has no Unix user {name!r}") from None
    groups = tuple(sorted(os.getgrouplist(entry.pw_name, entry.pw_gid)))
    return UnixUser(uid=entry.pw_uid, gid=entry.pw_gid, groups=groups, name=entry.pw_name, home=entry.pw_dir)


class NamespaceUsers:
    def __init__(self, path: Path, first_uid: int = FIRST_UID) -> None:
        self._path = path
        self._first_uid = first_uid
        self._uids: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError):
            self._uids = msgspec.json.decode(path.read_bytes(), type=dict[str, int])

    def has(self, namespace_uid: str) -> bool:
        return namespace_uid in self._uids

    def user_of(self, namespace_uid: str, name: str) -> UnixUser:
        """The user of a namespace; a namespace that is created again is another one."""
        if namespace_uid not in self._uids:
            last = max(self._uids.values(), default=self._first_uid - 1)
            self._write(self._uids | {namespace_uid: max(last + 1, self._first_uid)})
        uid = self._uids[namespace_uid]
        return UnixUser(uid=uid, gid=uid, name=f"pykueue-{name}")

    def _write(self, uids: dict[str, int]) -> None:
        """Write the file before the uid is used."""
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(msgspec.json.encode(uids))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        self._uids = uids
