"""Credentials that are renewed in their files, as Vault and sidecars do it."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from errors import Refused
from objectstore import credentials
from objectstore.bucket import bucket_of

_EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"


class _Store(BaseHTTPRequestHandler):
    """Answers any GET to whom has the token of the server."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer."""
        known = self.headers.get("x-amz-security-token") == "new-token"
        body = b"content" if known else _EXPIRED
        self.send_response(200 if known else 400)
        for name, value in (
            ("Content-Length", str(len(body))), ("ETag", '"x"'), ("Last-Modified", "Fri, 27 Nov 2026 00:00:00 GMT"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Files of credentials, whose token has expired, for a store that checks it."""
    for name in credentials.INHERITED:
        monkeypatch.delenv(name, raising=False)
    for name, value in {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "secret", "SESSION_TOKEN": "old-token"}.items():
        (tmp_path / name).write_text(value)
        monkeypatch.setenv(f"AWS_{name}_FILE", str(tmp_path / name))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Store)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    yield tmp_path
    server.shutdown()
    serving.join()
    server.server_close()


def test_a_token_that_was_renewed_in_its_file_is_used_by_a_process_that_runs(files: Path) -> None:
    """The next request has it; while the file cannot be read the last one that was is sent."""
    bucket = bucket_of("s3://some-bucket/hongbao")
    with pytest.raises(Refused, match="bucket_denied"):
        bucket.read("x", 100)
    (files / "SESSION_TOKEN").write_text("new-token")
    assert bucket.read("x", 100)[0] == b"content"
    (files / "SECRET_ACCESS_KEY").unlink()
    assert bucket.read("x", 100)[0] == b"content"
    (files / "SECRET_ACCESS_KEY").write_text("another secret")
    (files / "SESSION_TOKEN").write_text("worse-token")
    with pytest.raises(Refused, match="bucket_denied"):
        bucket.read("x", 100)


def test_nothing_is_made_anew_while_the_files_stay(files: Path) -> None:
    """One client, and its connections, for all requests."""
    bucket = bucket_of("s3://some-bucket/hongbao")
    assert bucket._store is bucket._store
    assert files
