"""A process that keeps the contract of ours and does nothing else: /readyz on HONGBAO_LISTEN, leaves on SIGTERM."""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import FrameType


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(dict(os.environ)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:  # no noise
        pass


def leave(_: int, __: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    if os.environ.get("STUB_FAILS") == os.environ.get("HONGBAO_SERVER", "-"):
        sys.exit("error: the stub was told to fail")
    signal.signal(signal.SIGTERM, leave)
    host, port = os.environ["HONGBAO_LISTEN"].split(":")
    HTTPServer((host, int(port)), Handler).serve_forever()
