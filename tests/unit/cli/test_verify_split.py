"""`verify-split` beside a gateway that is away, or that is none."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.table import main
from tests.unit.installation.test_later_changes import INIT

ID = "2611210123456789073"


class Answering(BaseHTTPRequestHandler):
    """Sends what a proxy sends, or another program; `body` is the class's."""

    body = b""

    def do_GET(self) -> None:
        self.send_response(502)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def nobody() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextmanager
def answering(body: bytes) -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), type("Handler", (Answering,), {"body": body})) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (None, "the gateway does not answer at http://127.0.0.1"),
        (b"<html>Bad Gateway</html>", "with 502 is no gateway of hongbao"),
        (b"[]", "with 502 is no gateway of hongbao"),
        (b"\xff", "with 502 is no gateway of hongbao"),
        (b"{}", "the gateway did not return the envelope"),
    ],
)
def test_a_gateway_that_is_away_is_a_sentence(tmp_path: Path, body: bytes | None, says: str) -> None:
    """Nothing listens there, or a proxy that answers in its stead: no traceback."""
    file = tmp_path / "installation.toml"
    with nobody() if body is None else answering(body) as port:
        words = [*INIT[:-1], f"gateway-1=127.0.0.1:{port}"]
        assert CliRunner().invoke(main, ["installation", "init", str(file), *words]).exit_code == 0
        ran = CliRunner().invoke(main, ["verify-split", ID, "--as", "alice", "--installation", str(file)])
    assert (ran.exit_code, says in " ".join(ran.output.split())) == (1, True), ran.output
