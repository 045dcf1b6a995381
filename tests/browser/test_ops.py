"""The operator's view in a browser: a SET under load, a server that is killed, actions with a second question."""

import contextlib
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import expect

from installation.keys import Secrets
from runtime.http import HttpServer
from tests.browser.fixtures import BROWSER, Visitors, visitors
from tests.browser.visitor import Visitor
from tests.faults.stack_fixtures import Crowd, Running

__all__ = ["visitors"]

pytestmark = [*BROWSER, pytest.mark.timeout(120)]

VIEWS = ("overview", "servers", "databases", "days", "hot", "envelope", "statements", "payouts", "switches")

RED_MS = 10_000
"""It took less than three seconds in all runs on a quiet machine; one that runs other tests beside it is slower."""


def key(site: Running, name: str = "OPS_KEY") -> str:
    return Secrets.load(site.stack.folder.secrets).key(name)


async def logged_in(site: Running, operator: Visitor, name: str = "OPS_KEY", view: str = "") -> None:
    """Log in as a person does, by keyboard."""
    operator.expect_problem("401")
    await operator.page.goto(site.stack.ops_url + view)
    await operator.page.locator("input[name=key]").focus()
    await operator.page.keyboard.type(key(site, name))
    await operator.page.keyboard.press("Tab")
    await operator.page.keyboard.type("Mei")
    await operator.page.keyboard.press("Enter")
    await expect(operator.page.locator("header .brand")).to_be_visible()


@contextlib.asynccontextmanager
async def load(site: Running, seed: int) -> AsyncIterator[Crowd]:
    for number in range(4):
        await site.deposit(f"sender-{number}", 10_000_000)
    async with Crowd(site, seed) as crowd, crowd.busy(people=12, senders=2):
        await crowd.until(20)
        yield crowd


@pytest_asyncio.fixture(loop_scope="session")
async def envelope(site: Running) -> AsyncIterator[str]:
    """An envelope of 5 shares, 3 of them opened, with a greeting that must be shown as it is."""
    await site.deposit("ming", 100_000)
    async with Crowd(site, 1) as crowd:
        created = await crowd.create("ming", total_fen=8888, count=5, greeting="<b>恭喜发财</b> 🧧")
        for user in ("li", "wang.fang", "zoe"):
            await crowd.open(user, created)
    yield created.envelope_id


async def test_a_set_under_load_and_a_server_that_is_killed(site: Running, visitors: Visitors) -> None:
    """Opens are seen by SET; a killed server is red, in words too, and green once it is back."""
    one = await visitors.desk()
    page = one.page
    async with load(site, 11):
        await logged_in(site, one)
        row = page.get_by_role("region", name="SETs").locator("tr[data-key=set-1]")
        await expect(row.locator("td").nth(3)).not_to_have_text("0.0", timeout=2 * RED_MS)
        await one.shot("ops-load", after_s=12)
        begun = time.monotonic()
        site.stack.kill("set-1-a", stay_dead=True)
        await expect(page.locator(".alarms")).to_contain_text("set-1-a away", timeout=RED_MS)
        assert time.monotonic() - begun <= 3.0
        await expect(page.locator(".chip.bad")).to_contain_text("set-1-a away")
        await expect(row).to_contain_text("1 / 2")
        await one.shot("ops-killed", after_s=2)
        await one.assert_accessible()
        await site.stack.restart("set-1-a")
        await expect(page.locator(".alarms")).not_to_contain_text("set-1-a", timeout=2 * RED_MS)
        await expect(page.locator(".events")).to_contain_text("set-1-a is back")
        await expect(row).to_contain_text("2 / 2")


@pytest.mark.long
@pytest.mark.parametrize(("language", "dark"), [("en-US", True), ("zh-CN", False)])
async def test_every_view_is_readable(
    site: Running, visitors: Visitors, envelope: str, language: str, dark: bool
) -> None:
    """Each view, in both languages, dark and light, is drawn and breaks none of axe's rules."""
    one = await visitors.desk(language, dark=dark)
    await logged_in(site, one)
    for view in VIEWS:
        path = f"#/{view}/{envelope}" if view == "envelope" else f"#/{view}"
        await one.page.evaluate("path => { location.hash = path }", path)
        await expect(one.page.locator("nav [aria-current=page]")).to_have_attribute("href", f"#/{view}")
        await expect(one.page.locator("main table, main .facts, main .empty").first).to_be_visible()
        await expect(one.page.locator("[data-loading]")).to_have_count(0)
        await one.assert_accessible()
        await one.assert_not_wider_than_the_window()
        await one.shot(f"ops-{view}-{'dark' if dark else 'light'}")


async def test_one_envelope_is_told_whole(site: Running, visitors: Visitors, envelope: str) -> None:
    """By its link alone: sender, claims, payouts, the verdict. Users' texts are shown as text, the seed is not."""
    one = await visitors.desk()
    await logged_in(site, one, "OPS_VIEW_KEY", f"#/envelope/{envelope}")
    page = one.page
    await expect(page.locator(".verdict .state.good")).to_contain_text("holds")
    await expect(page.locator(".facts")).to_contain_text("<b>恭喜发财</b> 🧧")
    for text in ("funded", "created", "claimed", "wang.fang"):
        await expect(page.locator(".timeline")).to_contain_text(text)
    raw = await page.locator("pre").inner_text()
    assert '"holds": true' in raw
    assert '"seed"' not in raw
    await page.get_by_label("Find an envelope").fill("2611260000000000000")
    await page.keyboard.press("Enter")
    one.expect_problem("404|422")
    await expect(page.get_by_role("alert")).not_to_be_empty()


async def test_a_second_question_comes_before_an_action(site: Running, visitors: Visitors) -> None:
    """By keyboard alone a SET is paused and resumed; a wrong name changes nothing, and Esc is a way back."""
    one = await visitors.desk()
    one.expect_problem("422")
    await logged_in(site, one)
    page = one.page
    button = page.get_by_role("button", name="Pause set-2")
    await button.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(button).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.type("a disk is changed")
    await page.keyboard.press("Tab")
    await page.keyboard.type("set-1")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("type set-2 to confirm")
    assert not any(one.paused for one in site.access.topology().sets)
    await one.assert_accessible()
    await one.shot("ops-pause")
    await page.get_by_label("To confirm, type set-2").fill("set-2")
    await page.keyboard.press("Enter")
    try:
        await expect(page.locator("tr[data-key=set-2]")).to_contain_text("paused")
        assert [one.name for one in site.access.topology().sets if one.paused] == ["set-2"]
        await page.get_by_role("button", name="Resume set-2").click()
        await page.get_by_label("Why?").fill("done")
        await page.get_by_label("To confirm, type set-2").fill("set-2")
        await page.keyboard.press("Enter")
        await expect(page.locator("tr[data-key=set-2]")).to_contain_text("in service")
    finally:
        assert not any(one.paused for one in site.access.topology().sets)
    await page.goto(f"{site.stack.ops_url}#/switches")
    await expect(page.get_by_role("region", name="Actions")).to_contain_text("a disk is changed")
    await expect(page.get_by_role("region", name="Actions")).to_contain_text("Mei")


async def test_who_may_do_what(site: Running, visitors: Visitors) -> None:
    """A wrong key is told so; a viewer sees and has no button; after a log-out nothing is shown any more."""
    one = await visitors.phone()
    one.expect_problem("401")
    page = one.page
    await page.goto(site.stack.ops_url)
    await page.locator("input[name=key]").fill("0" * 64)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("既不是运维密钥")
    await one.assert_accessible()
    await one.shot("ops-login")
    await page.locator("input[name=key]").fill(key(site, "OPS_VIEW_KEY"))
    await page.keyboard.press("Enter")
    await expect(page.locator("tr[data-key=set-1]")).to_be_visible()
    await expect(page.locator("[data-act], [data-audit]")).to_have_count(0)
    await one.assert_large_targets()
    await one.assert_not_wider_than_the_window()
    await one.assert_accessible()
    await one.shot("ops-phone", full_page=True, after_s=4)
    await page.reload()
    await expect(page.locator("tr[data-key=set-1]")).to_be_visible()
    await page.locator("[data-logout]").click()
    await expect(page.locator("input[name=key]")).to_be_visible()
    await page.reload()
    await expect(page.locator("input[name=key]")).to_be_visible()


async def test_silence_is_shown(site: Running, visitors: Visitors) -> None:
    """Without a network the page says since when it has heard nothing, and goes on by itself once it hears again."""
    one = await visitors.desk()
    await logged_in(site, one)
    await expect(one.page.locator("tr[data-key=set-1]")).to_be_visible()
    async with one.offline():
        await expect(one.page.locator(".banner")).to_contain_text("No answer from this page's server", timeout=6_000)
    await expect(one.page.locator(".banner")).to_have_count(0)


@contextlib.asynccontextmanager
async def behind_a_prefix(target: str, prefix: str) -> AsyncIterator[str]:
    """Put a proxy with a path of its own before the port, as a company's portal does; yield the address there."""

    async def forward(request: web.Request) -> web.Response:
        url = target.removesuffix("/ops/") + request.path_qs.removeprefix(prefix)
        body, headers = await request.read(), {k: v for k, v in request.headers.items() if k != "Host"}
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(request.method, url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            kept = {k: v for k, v in answer.headers.items() if k not in ("Content-Length", "Transfer-Encoding", "Date")}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    async with HttpServer(app, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.port}{prefix}/ops"


async def test_it_works_below_a_prefix(site: Running, visitors: Visitors) -> None:
    """Behind a proxy that serves it elsewhere a person logs in, sees it live, and comes back to it."""
    async with behind_a_prefix(site.stack.ops_url, "/tools/money") as url:
        one = await visitors.desk()
        one.expect_problem("401")
        await one.page.goto(url)
        await expect(one.page).to_have_url(f"{url}/")
        await one.page.get_by_label("Key", exact=True).fill(key(site, "OPS_VIEW_KEY"))
        await one.page.keyboard.press("Enter")
        await expect(one.page.locator("tr[data-key=set-1]")).to_be_visible()
        await one.page.reload()
        await expect(one.page.locator("tr[data-key=set-1]")).to_be_visible()
        (cookie,) = await one.context.cookies()
        assert (cookie["path"], cookie["httpOnly"], cookie["sameSite"]) == ("/tools/money/ops/api", True, "Strict")
        assert key(site, "OPS_VIEW_KEY") not in str(await one.context.storage_state())
