"""A notification that fails changes nothing for the job, and its log does not show the address."""

import socketserver
import threading

import pytest

from pykueue import notify


class Garbage(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(65536)
        self.request.sendall(b"220 mail.example.com ESMTP\r\n")


@pytest.fixture
def garbage():
    with socketserver.TCPServer(("127.0.0.1", 0), Garbage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@127.0.0.1:1/hunter2?hunter2",
        "http://127.0.0.1:1/hunter2 and more",
        "http://127.0.0.1:hunter2/",
        "http://GARBAGE/hunter2",
    ],
    ids=["closed port", "space", "port", "garbage"],
)
def test_an_address_that_does_not_work(url, garbage, monkeypatch, capsys):
    monkeypatch.setattr(notify, "_PAUSE_SECONDS", (0, 0))
    notify._post(url.replace("GARBAGE", garbage), {"job": "a"})
    error = capsys.readouterr().err
    assert "nobody was notified at 127.0.0.1" in error
    assert "hunter2" not in error
