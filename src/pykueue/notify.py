"""Runs the command of a job and notifies somebody when it ends or is stopped.

`pykueue submit --notify URL --mail ADDRESS` puts `python -m pykueue.notify … --` before the
command. The notification is sent by the job itself, with the rights and the network of the user
that the job runs as: nobody can make the server, or another user, send a request. It never blocks
scheduling: the job holds its quota until the notification is sent or given up, at most half a
minute. A job that is killed by SIGKILL, or that never starts, notifies nobody.

Only the standard library is imported, so that it starts fast.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from email.message import EmailMessage

_TRIES = 3
_TIMEOUT_SECONDS = 5.0
_PAUSE_SECONDS = (1.0, 2.0)
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer: the notification goes where the user said."""

    def redirect_request(self, *_: object) -> None:
        return None


def main(arguments: list[str]) -> int:
    """Run the command after `--`; return its exit code, 128 + the signal if one ended it."""
    end = arguments.index("--")
    urls = [word.removeprefix("--url=") for word in arguments[:end] if word.startswith("--url=")]
    addresses = [word.removeprefix("--mail=") for word in arguments[:end] if word.startswith("--mail=")]
    code, stopped_by = _run(arguments[end + 1 :])
    notice = {
        "job": os.environ.get("PYKUEUE_JOB", ""),
        "event": "stopped" if stopped_by else "succeeded" if code == 0 else "failed",
        "signal": stopped_by,
        "exitCode": code,
        "pod": os.environ.get("HOSTNAME", ""),
    }
    for url in urls:
        _post(url, notice)
    for address in addresses:
        _mail(address, notice)
    return code


def _run(command: list[str]) -> tuple[int, str]:
    """The exit code of the command, and the name of the signal that stopped it or ""."""
    received: list[int] = []
    try:
        process = subprocess.Popen(command)  # noqa: S603 - the command of the job
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return (127 if isinstance(error, FileNotFoundError) else 126), ""

    def forward(number: int, _frame: object) -> None:
        """Outside a container SIGTERM is sent to all processes, other signals to this one."""
        received.append(number)
        if number != signal.SIGTERM or os.getpid() == 1:
            process.send_signal(number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    code = process.wait()
    return (code if code >= 0 else 128 - code), (signal.Signals(received[0]).name if received else "")


def _post(url: str, notice: Mapping[str, object]) -> None:
    """Post the notice as JSON; a server that fails is tried again twice. It raises no error."""
    import time

    opener = urllib.request.build_opener(_NoRedirects)
    body = json.dumps(notice).encode()
    for attempt in range(_TRIES):
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - http, https
        try:
            with opener.open(request, timeout=_TIMEOUT_SECONDS):
                return
        except urllib.error.HTTPError as error:
            reason: object = f"status {error.code}"
            error.close()
            if error.code < 500:
                break
        except OSError as error:
            reason = error
        except (ValueError, http.client.HTTPException) as error:
            reason = type(error).__name__  # its message may contain the address
        if attempt < _TRIES - 1:
            time.sleep(_PAUSE_SECONDS[attempt])
    host = urllib.parse.urlsplit(url).hostname  # the rest of the address may be a secret
    print(f"pykueue: nobody was notified at {host}: {reason}", file=sys.stderr)  # noqa: T201


def _mail(address: str, notice: Mapping[str, object]) -> None:
    message = EmailMessage()
    message["To"] = address
    message["Subject"] = f"Job {notice['job']} {notice['event']}"
    message.set_content("".join(f"{name}: {value}\n" for name, value in notice.items()))
    try:
        command = ["sendmail", "-t", "-oi"]
        subprocess.run(command, input=bytes(message), timeout=_TIMEOUT_SECONDS * _TRIES, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        print(f"pykueue: no mail was sent to {address}: {error}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
