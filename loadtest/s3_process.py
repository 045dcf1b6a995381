"""An S3 server in a process of its own, for the benchmark and the tests: moto's, whose buckets live in its memory."""

import contextlib
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from errors import Unavailable

START_S: Final = 60.0
"""Until it serves: a second of imports, on a machine that is busy with other tests."""
_SERVING: Final = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")
_PROGRAM: Final = "from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])"
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "hongbao", "AWS_SECRET_ACCESS_KEY": "not a secret", "AWS_REGION": "us-east-1",
}  # fmt: skip


@contextlib.contextmanager
def s3_server(log: Path) -> Iterator[str]:
    """Serve S3 for the block; gives its endpoint. Raises Unavailable `s3_server_failed`, which names the log."""
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=out, stderr=out)  # noqa: S603 - our own words
    try:
        yield _serving(process, log)
    finally:
        process.kill()
        process.wait()


def make_bucket(endpoint: str, name: str) -> None:
    """Make a bucket; the client of ours makes none, because operators do."""
    request = urllib.request.Request(f"{endpoint}/{name}", method="PUT")  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=START_S):  # noqa: S310 - as above
        pass


@contextlib.contextmanager
def reached(endpoint: str) -> Iterator[None]:
    """Have this process's environment name the server for the block."""
    wanted = {**ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _serving(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        if found := _SERVING.search(log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.02)
    raise Unavailable("s3_server_failed", f"the S3 server does not serve; its log: {log}")
