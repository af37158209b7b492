"""Starts `pykueue up` many times without importing it anew: it has imported everything, and forks.

Each line of the standard input has the arguments of one start, as JSON. The answers are lines of
JSON with the pid of the server and, when it has ended, its wait status. What the server prints
comes in between.
"""

import functools
import json
import os
import sys

HISTORY_CHANGES = 300
"""So few changes are kept that the store compacts its log all the time."""


def prepare():
    from pykueue.api import registry
    from pykueue.apiserver import embedded
    from pykueue.apiserver.store.store import Store
    from pykueue.app import components, up  # noqa: F401 - imported before the forks
    from pykueue.cli.up import up as command
    from pykueue.controllers import system  # noqa: F401 - imported before the forks

    registry.scheme()
    embedded.Store = functools.partial(Store, history_changes=HISTORY_CHANGES)  # type: ignore[attr-defined]
    return command


def serve(command, arguments):
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    try:
        command.main(arguments, standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - the test reads it
        sys.stderr.write(f"{type(error).__name__}: {getattr(error, 'message', error)}\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def main():
    command = prepare()
    sys.stdout.write("prepared\n")
    sys.stdout.flush()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            serve(command, json.loads(line))
        sys.stdout.write(json.dumps({"pid": pid}) + "\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(json.dumps({"ended": status}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
