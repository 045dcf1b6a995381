"""How a token comes into the page: from the app that frames it, by a link, and from nobody else; below any prefix."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import expect

from gateway.service import Gateway, GatewaySettings
from gateway.service import running as running_gateway
from installation.keys import Secrets
from runtime import settings as settings_module
from tests.browser.fixtures import BROWSER, Visitors, visitors
from tests.faults.stack_fixtures import Running

__all__ = ["visitors"]

pytestmark = BROWSER

APP = """<!doctype html><title>an app</title><iframe id="f" width="360" height="700"></iframe><script>
const gifts = new URL(location.hash.slice(1)).origin;
window.heard = [];
window.tokens = [];
addEventListener('message', (event) => {
  if (event.origin !== gifts || event.source !== f.contentWindow) return;
  heard.push(event.data.type);
  const token = tokens.shift();
  if (token) f.contentWindow.postMessage({ type: 'hongbao:token', token }, gifts);
});
</script>"""

Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Serve) -> AsyncIterator[str]:
    """Answer every request with `handler`, at an origin of its own."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def the_app(request: web.Request) -> web.StreamResponse:
    del request
    return web.Response(text=APP, content_type="text/html")


@pytest_asyncio.fixture(loop_scope="session")
async def framed(site: Running) -> AsyncIterator[tuple[Gateway, str, str]]:
    """A gateway that one app may frame: the gateway, the origin of that app, and the origin of another one."""
    async with serving(the_app) as ours, serving(the_app) as other:
        keys = Secrets.load(site.data / "secrets.json").environment("gateway", "gateway-1")
        env = {
            **keys,
            "HONGBAO_LISTEN": "127.0.0.1:0",
            "HONGBAO_TOPOLOGY": str(site.access.topology_path),
            "HONGBAO_WALLET_URL": site.access._inventory.wallet_url,
            "HONGBAO_FRAME_ANCESTORS": ours,
        }
        async with running_gateway(settings_module.load(GatewaySettings, env)) as gateway:
            yield gateway, ours, other


async def test_an_app_hands_in_a_token_and_the_next(
    site: Running, framed: tuple[Gateway, str, str], visitors: Visitors
) -> None:
    """In a frame of an allowed origin: it asks, takes, keeps nothing, and asks again when the token has ended."""
    gateway, ours, _ = framed
    url = f"http://127.0.0.1:{gateway.port}/"
    one = await visitors.phone()
    one.expect_problem("status of 401")
    await one.page.goto(f"{ours}/#{url}")
    # The second one is not ours: the gateway rejects it, and the app is asked for another.
    tokens = [f"{site.access.token('alice')[:-4]}AAAA", site.access.token("alice")]
    await one.page.evaluate("([url, list]) => { tokens = list; f.src = url; }", [url, tokens])
    frame = one.page.frame_locator("#f")
    await expect(frame.locator(".purse .amount")).to_be_visible()
    await expect(frame.locator(".who")).to_contain_text("alice")
    await expect(frame.locator("button.who")).to_have_count(0)
    assert await one.page.evaluate("heard") == ["hongbao:ready", "hongbao:token-expired"]
    inside = next(one for one in one.page.frames if one.url.startswith(url))
    assert await inside.evaluate("[sessionStorage.length, document.cookie]") == [0, ""]


async def test_nobody_else_may_frame_it(framed: tuple[Gateway, str, str], visitors: Visitors) -> None:
    """A page of another origin cannot show it, so it can hand in no token."""
    gateway, _, other = framed
    url = f"http://127.0.0.1:{gateway.port}/"
    one = await visitors.phone()
    one.expect_problem("frame-ancestors|ERR_BLOCKED_BY_RESPONSE")
    await one.page.goto(f"{other}/#{url}")
    async with one.page.expect_event("console", lambda message: "frame-ancestors" in message.text):
        await one.page.evaluate("([url, list]) => { tokens = list; f.src = url; }", [url, ["a.b.c"]])
    assert await one.page.evaluate("heard") == []


async def test_a_window_of_another_page_cannot_hand_in_a_token(site: Running, visitors: Visitors) -> None:
    """A message that does not come from the frame's parent, or to a page in no frame, is not heard."""
    one = await visitors.phone()
    await one.page.goto(site.access.gateway_url)
    await expect(one.page.locator(".players")).to_be_visible()
    await one.page.evaluate("token => postMessage({ type: 'hongbao:token', token }, '*')", site.access.token("alice"))
    await one.page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 50))")
    await expect(one.page.locator(".players")).to_be_visible()
    await expect(one.page.locator(".who")).to_have_count(0)


async def test_a_token_in_a_link_is_asked_about(site: Running, visitors: Visitors) -> None:
    """It leaves the address at once, and counts when its user has said so; who says no stays who they were."""
    one = await visitors.phone()
    url, token = site.access.gateway_url, site.access.token("dave")
    await one.page.goto(f"{url}/#token={token}")
    yes, no = one.page.locator(".calm .primary"), one.page.locator(".calm .plain")
    await expect(yes).to_contain_text("dave")
    assert "token" not in one.page.url
    await one.shot("offer")
    await one.assert_accessible()
    await no.click()
    await expect(one.page.locator(".players")).to_be_visible()
    await one.page.goto("about:blank")
    await one.page.goto(f"{url}/#token={token}")
    await yes.click()
    await expect(one.page.locator("#who")).to_contain_text("dave")
    await one.page.reload()
    await expect(one.page.locator("#who")).to_contain_text("dave")
    assert await one.page.evaluate("history.length") <= 4


async def test_below_a_prefix(site: Running, visitors: Visitors) -> None:
    """Behind a proxy that takes off a prefix: sign in, send, open by the link, and no request leaves the prefix."""
    outside: list[str] = []
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def forward(request: web.Request) -> web.StreamResponse:
            if not request.path.startswith("/gifts/red/"):
                outside.append(request.path)
                return web.Response(status=404)
            target = site.access.gateway_url + "/" + request.raw_path.removeprefix("/gifts/red/")
            headers = {name: value for name, value in request.headers.items() if name not in ("Host", "Connection")}
            async with session.request(request.method, target, headers=headers, data=await request.read()) as answer:
                kept = {name: value for name, value in answer.headers.items() if name not in ("Content-Length", "Date")}
                return web.Response(status=answer.status, headers=kept, body=await answer.read())

        async with serving(forward) as origin:
            one = await visitors.phone("en-US")
            # Streams are not passed on by this proxy.
            one.expect_problem("v1/live|status of 50")
            await one.page.goto(f"{origin}/gifts/red/")
            await one.page.get_by_role("button", name="grace", exact=True).click()
            await one.page.locator("#go-send").click()
            await one.page.locator("#count").fill("1")
            await one.page.locator("#amount").fill("0.10")
            await one.page.locator("#pay").click()
            link = await one.page.locator("#link").input_value()
            assert link.startswith(f"{origin}/gifts/red/s/A")
            await one.page.goto(link)
            await one.page.locator("#coin").click()
            await expect(one.page.locator("#win .amount")).to_be_visible()
            await one.page.locator("#brand").click()
            await expect(one.page.locator(".purse")).to_be_visible()
            assert one.page.url == f"{origin}/gifts/red/"
            await one.page.goto("about:blank")
    assert outside == []


@pytest.mark.parametrize("text", ["token=a.b.c", "token=", "token=<b>", "token=../../x"])
async def test_rubbish_in_place_of_a_token_is_nobody(site: Running, visitors: Visitors, text: str) -> None:
    """What is no token signs nobody in, and the page stays as it was."""
    one = await visitors.phone()
    await one.page.goto(f"{site.access.gateway_url}/#{text}")
    await expect(one.page.locator(".players")).to_be_visible()
