"""A command on a pseudo terminal: answers what it prints, and ends with the command."""

import contextlib
import os
import pty
import select
import signal
import time

_CHUNK = 1 << 16


def run(command, answers, *, environment, seconds=60):
    """Give each answer when its prompt was printed; return the exit code and all output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, environment)
    output, position, remaining = b"", 0, list(answers)
    deadline = time.monotonic() + seconds
    with contextlib.suppress(OSError):  # the last process on the terminal has ended
        while True:
            assert time.monotonic() < deadline, _killed(pid, output)
            if select.select([terminal], [], [], 0.1)[0]:
                output += os.read(terminal, _CHUNK)
            if remaining and (found_at := output.find(remaining[0][0], position)) >= 0:
                position = found_at + len(remaining[0][0])
                os.write(terminal, remaining.pop(0)[1])
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output.decode(errors="replace")


def _killed(pid, output):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"the command did not end: {output.decode(errors='replace')}"
