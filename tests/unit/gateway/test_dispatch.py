"""The dispatcher: what it remembers of paths must change no answer and must stay small."""

import json
from types import SimpleNamespace

import pytest
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from errors import Refused
from gateway import resources as module
from gateway.dispatch import Dispatcher
from gateway.http.answer import Answer
from gateway.http.request import Request
from gateway.identity.token_faults import NOT_YET, TOO_LONG, invalid
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


@pytest.mark.parametrize(
    ("error", "noted"),
    [
        (Refused("token_expired", "it has expired"), True),
        (Refused("opens_at_out_of_range", "opens_at must be in the next 5 days"), True),
        (invalid(NOT_YET), True),
        (invalid(TOO_LONG), False),
        (Refused("malformed_json", "no JSON"), False),
    ],
)
async def test_in_a_sandbox_a_refusal_by_the_clock_says_by_which(error: Refused, noted: bool) -> None:
    """Whoever goes by their machine's clock hears what time it is in the sandbox, and where to read it; only there."""
    why = error.detail

    async def handler(*_: object) -> Answer:
        raise Refused(error.code, why)

    details = []
    for now in (None, lambda: "2026-11-29T04:51:00.000Z"):
        dispatcher = Dispatcher({"getHealth": handler}, RequestMetrics(), sandbox_now=now)
        details.append(json.loads((await dispatcher.serve(request("GET", "/healthz"))).body)["detail"])
    note = ". This sandbox goes by a clock of its own, which is at 2026-11-29T04:51:00.000Z (`sandbox_now` of /readyz)"
    assert details == [why, why + note * noted]
