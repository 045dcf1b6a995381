"""The dispatcher: what it remembers of paths must change no answer and must stay small."""

from types import SimpleNamespace

import pytest
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from gateway import front as module
from gateway.front import Front
from gateway.http.answer import Answer
from gateway.http.request import Request
from gateway.traffic import Traffic

ID = "2611230000001001007"
OPEN = f"/v1/envelopes/{ID}/open"


def request(method: str, path: str) -> Request:
    url = URL.build(path=path, encoded=True) if path.startswith("/") else URL(path, encoded=True)
    if method == "CONNECT":
        url = URL.build(authority=path, encoded=True)
    message = SimpleNamespace(url=url)
    return Request(method, path, CIMultiDictProxy(CIMultiDict()), EMPTY_PAYLOAD, True, None, message)


@pytest.fixture
async def front() -> Front:
    async def handler(_: Request, text: str) -> Answer:
        return Answer(200, text.encode())

    return Front(dict.fromkeys(("openEnvelope", "grabEnvelope", "getHealth"), handler), Traffic())


async def test_a_path_has_the_same_answer_each_time(front: Front) -> None:
    """Found, of another method, in the absolute form, or nowhere: the second time is like the first."""
    asked = [
        ("POST", OPEN, 200, ID.encode()),
        ("POST", OPEN.replace("open", "grab"), 200, ID.encode()),
        ("POST", OPEN + "?now=1", 200, ID.encode()),
        ("POST", "http://host" + OPEN, 200, ID.encode()),
        ("CONNECT", "http://host" + OPEN, 404, None),
        ("GET", OPEN, 405, None),
        ("GET", "/healthz", 200, b""),
        ("HEAD", "/healthz", 200, b""),
        ("GET", "/v1/nothing", 404, None),
    ]
    for _ in range(3):
        for method, path, status, body in asked:
            answer = await front.serve(request(method, path))
            assert (method, path, answer.status) == (method, path, status)
            assert body is None or answer.body == body


async def test_few_paths_are_remembered_and_short_ones_only(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query, the absolute form and a long path are not remembered, and the rest is bounded."""
    monkeypatch.setattr(module, "PATH_CACHE", 3)
    for number in range(10):
        for path in (f"/v1/envelopes/{number}/open", f"/healthz?{number}", f"/v1/envelopes/{number:0100}/open", "/x"):
            await front.serve(request("POST", path))
            await front.serve(request("POST", f"http://host/v1/envelopes/{number}/open"))
            assert len(front._resources) <= 3
    assert all(path.endswith("/open") and len(path) < 40 for path in front._resources)
