"""A process that keeps the contract of ours and does nothing else: /readyz on HONGBAO_LISTEN, leaves on a signal."""

import json
import os
import signal
import socket
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
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    host, port = os.environ["HONGBAO_LISTEN"].split(":")
    inherited = os.environ.get("HONGBAO_LISTEN_FDS", "")
    server = HTTPServer((host, int(port)), Handler, bind_and_activate=not inherited)
    if inherited:
        server.socket = socket.socket(fileno=int(inherited.split(",")[0]))
        server.socket.setblocking(True)
    if ready := os.environ.get("HONGBAO_READY_FD"):
        os.write(int(ready), b"ready")
        os.close(int(ready))
    server.serve_forever()
