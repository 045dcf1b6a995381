"""The page over HTTP: what a browser, a cache and a program get."""

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest
from aiohttp import web

from gateway.service import running as running_gateway
from tests.integration.gateway.fixtures import Door, door

__all__ = ["door"]

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that leaves bodies as they come."""
    async with aiohttp.ClientSession(auto_decompress=False, headers={"Accept-Encoding": "identity"}) as session:
        yield session


async def get(browser: aiohttp.ClientSession, url: str, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with browser.get(url, headers=named) as answer:
        return answer, await answer.read()


async def asset(browser: aiohttp.ClientSession, door: Door) -> str:
    """Return the address of the page's first module."""
    _, page = await get(browser, f"{door.url}/", **HTML)
    found = re.search(rb'src="(assets/[^"]+)"', page)
    assert found
    return f"{door.url}/{found[1].decode()}"


@pytest.mark.parametrize(
    ("path", "base"), [("/", b"./"), ("/?lang=en", b"./"), ("/s/Axyz?c=2", b"../"), ("/s/%E7%BA%A2", b"../")]
)
async def test_a_browser_gets_the_page(door: Door, browser: aiohttp.ClientSession, path: str, base: bytes) -> None:
    """At the root and at every share link: HTML that is asked for each time, with a strict policy."""
    answer, page = await get(browser, door.url + path, **HTML)
    assert answer.status == 200
    assert b'<base href="%b">' % base in page
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["Vary"] == "Accept, Accept-Encoding"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Request-Id"]
    told = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in told
    assert "unsafe" not in told


async def test_a_share_link_is_there_for_previews_and_checks(door: Door, browser: aiohttp.ClientSession) -> None:
    """At a share link who takes anything, names nothing, or asks for the head alone has the page, as a browser has."""
    url = f"{door.url}/s/Axyz"
    for accept in ("*/*", "", "text/*;q=0.5", "application/json, text/plain, */*"):
        answer, page = await get(browser, url, Accept=accept)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8"), accept
        assert b'<base href="../">' in page
    async with browser.head(url, skip_auto_headers=("Accept",)) as answer:
        assert answer.status == 200
        assert int(answer.headers["Content-Length"]) > 0
    async with browser.get(url, skip_auto_headers=("Accept",)) as answer:
        assert answer.status == 200


async def test_a_program_gets_a_problem(door: Door, browser: aiohttp.ClientSession) -> None:
    """Who does not ask for HTML by name at the root, or does not take it at a share link, hears where the API is."""
    for path, accept in (("/", "*/*"), ("/", "application/json"), ("/s/Axyz", "application/json")):
        answer, body = await get(browser, door.url + path, Accept=accept)
        assert (answer.status, json.loads(body)["code"]) == (404, "route_not_found")
        assert answer.headers["Content-Type"] == "application/problem+json"
    for method in ("POST", "PUT", "DELETE"):
        status, headers, problem = await door.call(method, "/")
        assert (status, problem["code"], headers["Allow"]) == (405, "method_not_allowed", "GET, HEAD")


async def test_an_asset_is_kept_for_ever(door: Door, browser: aiohttp.ClientSession) -> None:
    """It is immutable, with its type and an ETag; HEAD has the same headers and no body."""
    url = await asset(browser, door)
    answer, body = await get(browser, url)
    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert int(answer.headers["Content-Length"]) == len(body) > 0
    async with browser.head(url) as head:
        assert (head.status, await head.read()) == (200, b"")
        for name in ("Content-Length", "ETag", "Content-Type", "Cache-Control"):
            assert head.headers[name] == answer.headers[name]


async def test_it_is_compressed_for_who_takes_it(door: Door, browser: aiohttp.ClientSession) -> None:
    """Compressed it is the same bytes inside, under an ETag of its own."""
    for url, more in ((f"{door.url}/", HTML), (await asset(browser, door), {})):
        plain, body = await get(browser, url, **more)
        small, compressed = await get(browser, url, Accept_Encoding="br, gzip", **more)
        assert "Content-Encoding" not in plain.headers
        assert small.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(compressed) == body
        assert len(compressed) < len(body)
        assert small.headers["ETag"] != plain.headers["ETag"]


async def test_a_copy_that_is_right_is_not_sent_again(door: Door, browser: aiohttp.ClientSession) -> None:
    """304 with the headers that a cache renews; also for an ETag that a proxy has weakened, and for `*`."""
    for url, more in ((f"{door.url}/", HTML), (await asset(browser, door), {})):
        first, _ = await get(browser, url, **more)
        etag = first.headers["ETag"]
        for given in (etag, f"W/{etag}", f'"x", {etag}', "*"):
            again, body = await get(browser, url, If_None_Match=given, **more)
            assert (again.status, body) == (304, b"")
            assert again.headers["ETag"] == etag
            assert again.headers["Cache-Control"] == first.headers["Cache-Control"]
            assert "Content-Length" not in again.headers
        assert (await get(browser, url, If_None_Match='"other"', **more))[0].status == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/assets/", "/assets", "/assets/app.js", "/assets/../pyproject.toml", "/assets/%2e%2e/web/index.html"),
        *(
            "/assets/..%2f..%2fetc%2fpasswd",
            "/assets//etc/passwd",
            "/assets/vendor/manifest.json",
            "/assets/index.html",
        ),
        *("/assets/vendor/preact.LICENSE", "/web/index.html", "/s/", "/s", "/s/a/b", "/s/../assets/app.js", "//"),
    ],
)
async def test_nothing_else_is_served(door: Door, path: str) -> None:
    """A file is found by its exact name, and no path leads out of the folder."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nConnection: close\r\n\r\n".encode())
    head = (await reader.read()).split(b"\r\n")[0]
    writer.close()
    await writer.wait_closed()
    assert head == b"HTTP/1.1 404 Not Found"


async def test_a_connection_goes_on_after_a_304(door: Door) -> None:
    """Answers without a body keep the connection in step: the next answer is that of the next request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nIf-None-Match: *\r\n\r\n")
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    first = await reader.readuntil(b"\r\n\r\n")
    second = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    assert first.startswith(b"HTTP/1.1 304 ")
    assert second.startswith(b"HTTP/1.1 200 OK")


async def test_who_may_frame_it(door: Door, browser: aiohttp.ClientSession) -> None:
    """Nobody, unless a setting names them; then the page knows them, too."""
    settings = msgspec.structs.replace(door.gateway.settings, frame_ancestors="https://chat.example")
    async with running_gateway(settings) as gateway:
        answer, page = await get(browser, f"http://127.0.0.1:{gateway.port}/", **HTML)
    assert "frame-ancestors https://chat.example" in answer.headers["Content-Security-Policy"]
    assert b'<meta name="hongbao-parents" content="https://chat.example">' in page
    before, _ = await get(browser, f"{door.url}/", **HTML)
    assert "frame-ancestors 'none'" in before.headers["Content-Security-Policy"]
    assert before.headers["ETag"] != answer.headers["ETag"]


async def test_it_works_below_a_prefix(door: Door, browser: aiohttp.ClientSession) -> None:
    """Behind a proxy that takes off a prefix, every URL of the page resolves below it, also at a share link."""

    async def forward(request: web.Request) -> web.Response:
        answer, body = await get(browser, f"{door.url}/{request.match_info['rest']}", Accept=request.headers["Accept"])
        return web.Response(status=answer.status, body=body)

    app = web.Application()
    app.router.add_get("/gifts/red/{rest:.*}", forward)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        root = f"{site.name.rstrip('/')}".replace(":0", f":{runner.addresses[0][1]}")
        for path in ("/gifts/red/", "/gifts/red/s/Axyz"):
            answer, page = await get(browser, root + path, **HTML)
            base = re.search(rb'<base href="([^"]+)">', page)
            assert base
            for found in re.findall(rb'(?:href|src)="(assets/[^"]+)"', page):
                url = answer.url.join(aiohttp.client.URL(base[1].decode())).join(aiohttp.client.URL(found.decode()))
                assert (await get(browser, str(url), Accept="*/*"))[0].status == 200
    finally:
        await runner.cleanup()
