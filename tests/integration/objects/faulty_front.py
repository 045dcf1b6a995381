"""An HTTP proxy before an S3 server that answers, changes or drops what a test says; else it only forwards."""

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit


@dataclass
class Asked:
    """One request: its method, the path without the query, the query, and the header `Range`."""

    method: str
    path: str
    query: dict[str, str]
    range: str = ""

    @property
    def lists(self) -> bool:
        """Whether it asks for a listing."""
        return self.query.get("list-type") == "2"


@dataclass
class Answer:
    """What is answered instead."""

    status: int
    code: str

    @property
    def body(self) -> bytes:
        """Return the error as the protocol writes it."""
        return f"<Error><Code>{self.code}</Code><Message>as the test says</Message></Error>".encode()


Break = Callable[[Asked], Answer | None]
Change = Callable[[Asked, bytes], bytes]


class FaultyFront:
    """`breaks` answers in the server's place, or returns None; it may change the query of what it lets through.

    `changes` returns the body that the client gets. `seen` are the requests so far.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.endpoint = ""
        self.seen: list[Asked] = []
        self.heal()

    def heal(self) -> None:
        """Only forward from now on."""
        self.breaks: Break = lambda _asked: None
        self.changes: Change = lambda _asked, body: body

    def always(self, method: str, status: int, code: str) -> None:
        """Answer every request of a method with an error."""
        self.breaks = lambda asked: Answer(status, code) if asked.method == method else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    front: FaultyFront

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        asked = Asked(self.command, unquote(parts.path), query, self.headers.get("Range", ""))
        self.front.seen.append(asked)
        answer = self.front.breaks(asked)
        if answer is not None:
            self._answer(answer.status, {"Content-Type": "application/xml"}, answer.body)
            return
        way = http.client.HTTPConnection(self.front.upstream, timeout=60)
        try:
            target = f"{parts.path}?{urlencode(asked.query)}" if asked.query else parts.path
            way.request(self.command, target, body, dict(self.headers.items()))
            found = way.getresponse()
            content = found.read()
            headers = dict(found.getheaders())
        finally:
            way.close()
        changed = self.front.changes(asked, content)
        if self.command == "HEAD":
            self._answer(found.status, headers, b"", headers.get("Content-Length", "0"))
        else:
            self._answer(found.status, headers, changed)

    def _answer(self, status: int, headers: dict[str, str], body: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)) if length is None else length)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _forward  # noqa: N815 - the library calls them

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that hang up."""


@contextlib.contextmanager
def faulty_front(upstream: str) -> Iterator[FaultyFront]:
    """Serve a proxy to the S3 server at `upstream`."""
    front = FaultyFront(upstream)
    handler = type("Handler", (_Handler,), {"front": front})
    server = _Server(("127.0.0.1", 0), handler)
    front.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield front
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
