"""The network between the manager and a worker of a story: a proxy that can be cut, silent or slow.

The kubeconfig Secrets of a story name the proxy, so a story breaks only its own connections.
"""

import contextlib
import socket
import threading
import time

_CHUNK_BYTES = 65536


class Proxy:
    """Forwards connections from a port of its own to an API server."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._delay_seconds = 0.0
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.port = 0
        self._listen()

    def _listen(self) -> None:
        """Listen on the port of before; the first time on any."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
            self.port = self._listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def set_state(self, state: str, delay_seconds: float = 0) -> None:
        """`open`, `cut` (connections break, new ones are refused) or `silent` (half-open)."""
        self._delay_seconds = delay_seconds
        if state == "silent":
            self._flows.clear()
        else:
            self._flows.set()
        if state == "cut":
            self.close()
        else:
            self._listen()

    def close(self) -> None:
        """Refuse connections, and end those that there are."""
        self._flows.set()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for connection in sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            self._flows.wait()
            with socket.create_connection(self._target) as server:
                with self._lock:
                    self._sockets |= {client, server}
                forward = threading.Thread(target=self._copy, args=(client, server), daemon=True)
                forward.start()
                self._copy(server, client)
                forward.join()
                with self._lock:
                    self._sockets -= {client, server}

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                self._flows.wait()
                if self._delay_seconds:
                    time.sleep(self._delay_seconds)
                sink.sendall(data)
        for connection in (source, sink):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
