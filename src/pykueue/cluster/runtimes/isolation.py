"""Which isolation this machine can give to jobs, and the sentence that says so.

`pykueue up` determines it at the start by starting one process in the way it will start jobs, and
writes it to a file, which `pykueue user add` reads.
"""

import contextlib
import os
import pwd
import threading
from pathlib import Path

import msgspec

from pykueue.cluster.runtimes import linux_calls, sandbox, seccomp
from pykueue.cluster.runtimes.sandbox import ContainerSecurity, FileView, UnixUser

_FILE = "isolation.json"
_DOCUMENT = "See docs/isolation.md."


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    server: UnixUser
    is_enabled: bool = True
    """False with `--no-isolation`."""
    obstacle: str = ""
    """Why jobs cannot have namespaces and users of their own; empty if they can."""
    run_as: UnixUser | None = None
    """The account of all namespaces that have none in `accounts`."""
    accounts: dict[str, UnixUser] = {}
    """Accounts by namespace."""
    first_uid: int = 0
    has_cgroups: bool = False
    has_seccomp: bool = True

    @property
    def is_root(self) -> bool:
        return self.server.uid == 0

    @property
    def is_possible(self) -> bool:
        return self.is_enabled and not self.obstacle

    def sentence(self) -> str:
        """Whose rights jobs have, in one line."""
        me = self.server.name
        accounts = "".join(f"Jobs in {name} run as {user.name}. " for name, user in sorted(self.accounts.items()))
        if self.run_as is not None and self.is_possible:
            return (
                f"{accounts}{'Other' if accounts else 'All'} jobs run as the Unix user {self.run_as.name}. {_DOCUMENT}"
            )
        if self.is_possible:
            return (
                f"{accounts}Jobs in namespaces that others may use run as Unix users of their own (from {self.first_uid}); "
                f"jobs in namespaces that only the administrator may use run as {me}. {_DOCUMENT}"
            )
        if self.is_enabled and self.is_root:
            return (
                f"Jobs run as {me}; in namespaces that others may use they do not start, because isolation is not "
                f"possible here: {self.obstacle}. With --no-isolation, whoever may submit a job is {me}. {_DOCUMENT}"
            )
        reason = f"isolation is off: {self.obstacle}" if self.is_enabled else "isolation is off"
        return f"Jobs run as the Unix user {me} ({reason}): whoever may submit a job is {me}. {_DOCUMENT}"

    def limits(self) -> str:
        """What bounds the memory of jobs, in one line."""
        means = (
            "by cgroups" if self.has_cgroups else "for each process, and watched every second for all of a container"
        )
        return f"Memory limits of jobs are kept {means}."

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / _FILE).write_bytes(msgspec.json.encode(self))


def remove(directory: Path) -> None:
    (directory / _FILE).unlink(missing_ok=True)


def read(directory: Path) -> Isolation | None:
    """What the running `pykueue up` wrote; None if it runs no processes."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((directory / _FILE).read_bytes(), type=Isolation)
    return None


def determine(
    *,
    is_enabled: bool,
    first_uid: int,
    run_as: UnixUser | None = None,
    accounts: dict[str, UnixUser] | None = None,
    has_cgroups: bool = False,
) -> Isolation:
    user = run_as or UnixUser(uid=first_uid, gid=first_uid)
    return Isolation(
        server=_this_user(),
        is_enabled=is_enabled,
        obstacle=_obstacle(user) if is_enabled else "",
        run_as=run_as,
        accounts=accounts or {},
        first_uid=first_uid,
        has_cgroups=has_cgroups,
        has_seccomp=seccomp.is_available(),
    )


def _this_user() -> UnixUser:
    uid = os.geteuid()
    name = str(uid)
    with contextlib.suppress(KeyError):
        name = pwd.getpwuid(uid).pw_name
    return UnixUser(uid=uid, gid=os.getegid(), groups=tuple(os.getgroups()), name=name)


def _obstacle(user: UnixUser) -> str:
    if os.geteuid() != 0:
        return "it needs root"
    if not linux_calls.is_supported_machine():
        return "it needs Linux on x86_64 or aarch64"
    errors: list[str] = []

    def start_process() -> None:
        try:
            _start_process(user)
        except OSError as error:
            errors.append(f"{error.filename}: {error.strerror}")

    thread = threading.Thread(target=start_process)
    thread.start()
    thread.join()
    return f"this kernel refuses it ({errors[0]})" if errors else ""


def _start_process(user: UnixUser) -> None:
    """Start a process in new namespaces as another user; OSError if the kernel refuses."""
    security = ContainerSecurity(user=user, has_pid_namespace=True, has_seccomp_filter=seccomp.is_available())
    sandbox.enter_new(security, FileView())
    sandbox.take_rights(security)
    pid = os.posix_spawn("/bin/true", ["true"], {})
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError(0, "a process could not run", "/bin/true")
