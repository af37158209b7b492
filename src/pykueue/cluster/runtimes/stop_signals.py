"""The numbers of the signals that `lifecycle.stopSignal` names, such as SIGUSR1 or SIGRTMIN+3."""

import re
import signal

_REAL_TIME = re.compile(r"(SIGRTMIN|SIGRTMAX)(?:([+-])(\d+))?")
_SYNONYMS = {"SIGCLD": "SIGCHLD", "SIGPOLL": "SIGIO", "SIGIOT": "SIGABRT"}


def number(name: str) -> int:
    """The number of a signal; that of SIGTERM if this machine does not know the name."""
    match = _REAL_TIME.fullmatch(name)
    if match is not None:
        base = signal.SIGRTMIN if match[1] == "SIGRTMIN" else signal.SIGRTMAX
        return int(base) + int(f"{match[2]}{match[3]}" if match[2] else 0)
    return int(signal.Signals.__members__.get(_SYNONYMS.get(name, name), signal.SIGTERM))
