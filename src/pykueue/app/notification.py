"""The message of a service that it is ready, as systemd's `Type=notify` defines it.

`pykueue up --detach` listens for it as systemd does.
"""

import contextlib
import os
import socket

SOCKET_VARIABLE = "NOTIFY_SOCKET"
READY = b"READY=1"


def take_address() -> str:
    """The address of the listener, "" if there is none; removed, so that no job inherits it."""
    return os.environ.pop(SOCKET_VARIABLE, "")


def notify_ready(address: str) -> None:
    """Tell whoever started this process that it is ready. A listener that is gone is no error."""
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.connect("\0" + address[1:] if address.startswith("@") else address)
        connection.send(READY)
