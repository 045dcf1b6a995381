"""The documentation site at a gateway: what is served where it was built, and what stays where it was not."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from gateway import limits
from gateway.problems import PROBLEMS
from gateway.service import running as running_gateway
from gateway.site import handbook
from gateway.site.handbook import Handbook
from tests.integration.gateway.fixtures import Door, door

__all__ = ["door"]

INDEX = "<!doctype html><title>first</title>" + "words " * 200
FILES = {
    "index.html": INDEX,
    "reference/index.html": "<!doctype html><title>second</title>",
    "_static/site.css": "p{color:red}",
    "_static/site.js": "go()",
    "_images/a.svg": "<svg/>",
    "balancers/nginx.conf": "events {}",
    "secret.txt": "no",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "outside.html").write_text("no")
    return tmp_path / "site"


@pytest.fixture
async def url(door: Door, folder: Path) -> AsyncIterator[str]:
    """The address of a gateway that has the site."""
    async with running_gateway(msgspec.structs.replace(door.gateway.settings, docs=str(folder))) as gateway:
        yield f"http://127.0.0.1:{gateway.port}"


@pytest.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False, headers={"Accept-Encoding": "identity"}) as session:
        yield session


async def get(browser: aiohttp.ClientSession, url: str, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    async with browser.get(url, headers={name.replace("_", "-"): value for name, value in headers.items()}) as answer:
        return answer, await answer.read()


async def test_pages_and_their_policy(url: str, browser: aiohttp.ClientSession) -> None:
    """Below `/docs/`, by name or by folder, with types, a policy without `unsafe`, and a way to ask again cheaply."""
    for path, name, kind in (
        ("/docs/", "index.html", "text/html; charset=utf-8"),
        ("/docs/index.html", "index.html", "text/html; charset=utf-8"),
        ("/docs/reference/", "reference/index.html", "text/html; charset=utf-8"),
        ("/docs/_static/site.css?v=1234", "_static/site.css", "text/css; charset=utf-8"),
        ("/docs/_static/site.js", "_static/site.js", "text/javascript; charset=utf-8"),
        ("/docs/balancers/nginx.conf", "balancers/nginx.conf", "text/plain; charset=utf-8"),
    ):
        answer, body = await get(browser, url + path)
        assert (answer.status, body.decode()) == (200, FILES[name])
        assert answer.headers["Content-Type"] == kind
        assert answer.headers["Cache-Control"] == "no-cache"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        again, nothing = await get(browser, url + path, If_None_Match=answer.headers["ETag"])
        assert (again.status, nothing) == (304, b"")


async def test_a_picture_can_run_nothing(url: str, browser: aiohttp.ClientSession) -> None:
    """An SVG has styles inside, for light and dark, and is in a sandbox when it is opened by itself."""
    answer, _ = await get(browser, f"{url}/docs/_images/a.svg")
    assert answer.headers["Content-Type"] == "image/svg+xml; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"


async def test_it_is_compressed_and_has_a_head(url: str, browser: aiohttp.ClientSession) -> None:
    """Compressed it is the same page; HEAD has its length and no body; other methods are refused."""
    answer, body = await get(browser, f"{url}/docs/", Accept_Encoding="gzip")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body).decode() == INDEX
    async with browser.head(f"{url}/docs/") as head:
        assert (head.status, head.headers["Content-Length"]) == (200, str(len(INDEX)))
    async with browser.post(f"{url}/docs/") as refused:
        assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        *("/docs/gone.html", "/docs/secret.txt", "/docs/reference", "/docs//index.html", "/docs/../outside.html"),
        *("/docs/%2e%2e/outside.html", "/docs/..%2foutside.html", "/docs/_static/", "/docs/./index.html", "/docsindex"),
    ],
)
async def test_nothing_else_is_served(url: str, path: str) -> None:
    """A file is found by its exact name, and no path leads out of the folder."""
    port = int(url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head = (await reader.read()).split(b"\r\n")[0]
    writer.close()
    await writer.wait_closed()
    assert head == b"HTTP/1.1 404 Not Found"


async def test_the_type_of_a_problem_leads_to_its_entry(
    url: str, door: Door, browser: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """`/docs` without a slash has an anchor for each code, with the site and without; it leads to the site if there."""
    without = msgspec.structs.replace(door.gateway.settings, docs=str(tmp_path / "never"))
    async with running_gateway(without) as gateway:
        bare = f"http://127.0.0.1:{gateway.port}"
        pages = {one: await get(browser, f"{one}/docs") for one in (url, bare)}
        missing, _ = await get(browser, f"{bare}/docs/")
    for answer, body in pages.values():
        assert answer.status == 200
        assert [code for code in PROBLEMS if f'id="{code}"'.encode() not in body] == []
    assert b'href="docs/"' in pages[url][1]
    assert b'href="docs/"' not in pages[bare][1]
    assert missing.status == 404


async def test_a_page_that_went_away(url: str, folder: Path, browser: aiohttp.ClientSession) -> None:
    """After another build, a file that is gone is 404; what was read before is served on."""
    assert (await get(browser, f"{url}/docs/"))[0].status == 200
    for name in FILES:
        (folder / name).unlink()
    answer, body = await get(browser, f"{url}/docs/reference/index.html")
    assert (answer.status, msgspec.json.decode(body)["code"]) == (404, "route_not_found")
    assert (await get(browser, f"{url}/docs/"))[0].status == 200


@pytest.mark.parametrize("bound", ["HANDBOOK_FILES", "HANDBOOK_BYTES"])
def test_a_folder_that_is_too_large_is_not_served(folder: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """A setting that names the wrong folder does not fill the gateway's memory."""
    assert Handbook(folder)
    assert getattr(limits, bound) > 1
    monkeypatch.setattr(handbook, bound, 2)
    assert not Handbook(folder)
    assert Handbook(folder).operations_of("/docs/") is None
