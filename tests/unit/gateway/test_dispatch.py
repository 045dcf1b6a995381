"""The dispatcher: what it remembers of paths must change no answer and must stay small."""

from types import SimpleNamespace

import pytest
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from gateway import resources as module
from gateway.dispatch import Dispatcher
from gateway.http.answer import Answer
from gateway.http.request import Request
from gateway.request_metrics import RequestMetrics
from gateway.resources import Resource

ID = "2611230000001001007"
OPEN = f"/v1/envelopes/{ID}/open"


def request(method: str, path: str) -> Request:
    url = URL.build(path=path, encoded=True) if path.startswith("/") else URL(path, encoded=True)
    if method == "CONNECT":
        url = URL.build(authority=path, encoded=True)
    message = SimpleNamespace(url=url)
    return Request(method, path, CIMultiDictProxy(CIMultiDict()), EMPTY_PAYLOAD, True, None, message)


def make_dispatcher() -> Dispatcher:
    async def handler(_: Request, resource: Resource) -> Answer:
        return Answer(200, resource.id_text.encode())

    return Dispatcher(dict.fromkeys(("openEnvelope", "grabEnvelope", "getHealth"), handler), RequestMetrics())


async def test_a_path_has_the_same_answer_each_time() -> None:
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
    dispatcher = make_dispatcher()
    for _ in range(3):
        for method, path, status, body in asked:
            answer = await dispatcher.serve(request(method, path))
            assert (method, path, answer.status) == (method, path, status)
            assert body is None or answer.body == body


async def test_few_paths_are_remembered_and_short_ones_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query, the absolute form and a long path are not remembered, and the rest is bounded."""
    monkeypatch.setattr(module, "PATH_CACHE", 3)
    dispatcher = make_dispatcher()
    resources = dispatcher._resources._remembered
    for number in range(10):
        for path in (f"/v1/envelopes/{number}/open", f"/healthz?{number}", f"/v1/envelopes/{number:0100}/open", "/x"):
            await dispatcher.serve(request("POST", path))
            await dispatcher.serve(request("POST", f"http://host/v1/envelopes/{number}/open"))
            assert resources.cache_info().currsize <= 3
    before = resources.cache_info()
    assert before.currsize == 3
    for path in ("/healthz?1", f"/v1/envelopes/{1:0100}/open", "http://host/v1/envelopes/1/open"):
        await dispatcher.serve(request("POST", path))
    assert resources.cache_info() == before
    await dispatcher.serve(request("POST", "/v1/envelopes/9/open"))
    assert resources.cache_info().hits == before.hits + 1
