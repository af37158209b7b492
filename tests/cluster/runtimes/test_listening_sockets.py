"""Connections to a pod reach its own processes, and no other port of this machine."""

import contextlib
import os
import socket
import sys
import uuid
from pathlib import Path

import pytest
from tests.cluster.runtimes.test_isolation import OBSTACLE, as_user, running
from tests.cluster.runtimes.test_process import log_of, request

from pykueue.cluster.runtimes import listening_sockets
from pykueue.cluster.runtimes.process import ProcessRuntime
from pykueue.cluster.runtimes.sandbox import ContainerSecurity, UnixUser
from pykueue.cluster.runtimes.unix_users import FIRST_UID

JANE = UnixUser(uid=FIRST_UID, gid=FIRST_UID, name="pykueue-ml")
PARENT = os.getppid()


@contextlib.contextmanager
def listening(address, port=0, *, shared=False):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as server:
        if shared:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind((address, port))
        server.listen()
        yield server.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"])
def test_the_owner_of_a_socket(address):
    with listening(address) as port:
        assert listening_sockets.is_open(port, [os.getpid()])
        assert listening_sockets.is_open(port, [PARENT, os.getpid()])
        assert not listening_sockets.is_open(port, [PARENT])
    assert not listening_sockets.is_open(port, [os.getpid()])


def test_another_loopback_address_does_not_answer():
    with listening("127.0.0.2") as port:
        assert not listening_sockets.is_open(port, [os.getpid()])


def test_only_one_of_three_loopback_addresses_answers():
    with listening("127.0.0.2") as port, listening("127.0.0.1", port), listening("127.0.0.3", port):
        assert len(listening_sockets._listening(port, Path("/proc/net"))) == 1


def test_a_shared_port_needs_all_its_owners():
    with listening("127.0.0.1", shared=True) as port:
        child = os.fork()
        if child == 0:  # it has the socket of its parent, and one of its own
            with listening("127.0.0.1", port, shared=True):
                os.read(0, 0)
                os.kill(os.getpid(), 19)
        os.waitpid(child, os.WUNTRACED)
        try:
            assert not listening_sockets.is_open(port, [os.getpid()])
            assert listening_sockets.is_open(port, [os.getpid(), child])
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)


SERVER = """
import os, socket, subprocess, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
if sys.argv[1:]:
    server.set_inheritable(True)
    if os.fork():
        os._exit(0) if sys.argv[1] == "daemon" else os.wait()
    os.setsid()
while True:
    connection, _ = server.accept()
    connection.sendall(b"hello"); connection.close()
"""
ISOLATED = as_user(JANE)


@pytest.mark.parametrize("security", [ContainerSecurity(), ISOLATED], ids=["same user", "isolated"])
@pytest.mark.parametrize("kind", [(), ("child",)], ids=["main", "child"])
async def test_a_pod_is_reached_on_its_own_ports_only(tmp_path, security, kind):
    if OBSTACLE and security is ISOLATED:
        pytest.skip(f"isolation is not possible here: {OBSTACLE}")
    runtime = ProcessRuntime(tmp_path)
    pod, other = (
        request(sys.executable, "-c", SERVER, *kind, uid=str(uuid.uuid4()), security=security) for _ in range(2)
    )
    containers = [await running(runtime, container_request) for container_request in (pod, other)]
    port, foreign = (int(log_of(runtime, container_request)) for container_request in (pod, other))
    try:
        reader, writer = await runtime.connect(pod.pod, port)
        assert await reader.read() == b"hello"
        writer.close()
        with listening("127.0.0.1") as of_the_host:
            for closed in (foreign, of_the_host, 0, 1):
                with pytest.raises(ConnectionRefusedError):
                    await runtime.connect(pod.pod, closed)
    finally:
        for container in containers:
            await container.stop(0)
        for container_request in (pod, other):
            await runtime.forget(container_request.pod["metadata"]["uid"])


async def test_a_port_that_changes_hands_is_not_reached():
    """A pod closes its port after the first look, and another process opens it."""
    looks = []
    with listening("127.0.0.1") as port:

        def processes():
            looks.append(1)
            return [os.getpid()] if len(looks) == 1 else [PARENT]

        with pytest.raises(ConnectionRefusedError):
            await listening_sockets.connect(port, processes)
    assert len(looks) == 2


async def test_a_server_for_one_connection_is_reached():
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(listening("127.0.0.1"))
        looks = []

        def processes():
            looks.append(1)
            if len(looks) == 2:
                stack.close()
            return [os.getpid()]

        _, writer = await listening_sockets.connect(port, processes)
        writer.close()
