"""The documentation site in a browser, under the policy that a gateway gives it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from gateway.service import GatewaySettings
from gateway.service import running as running_gateway
from installation.keys import Secrets
from runtime.settings import load
from tests.browser.fixtures import BROWSER, Visitors, visitors
from tests.faults.stack_fixtures import Running
from tests.handbook_site import handbook_site

__all__ = ["handbook_site", "visitors"]

pytestmark = BROWSER

PAGES = (
    *("index", "tutorial/group-chat", "apps/signing-in", "reference/api", "reference/problems", "reference/commands"),
    *("reference/settings", "reference/tables", "explanation/stock", "explanation/group-commit"),
    *("explanation/memcached", "explanation/audit", "operations/README"),
)
BY_AXE = ("index", "reference/problems", "explanation/stock")
"""Those that axe looks at: it takes a second for each."""
PICTURES = ("stock", "group-commit", "memcached", "audit")
"""Pages of `explanation/`, each with a picture of its own."""


@pytest_asyncio.fixture(loop_scope="session")
async def docs(site: Running, handbook_site: Path) -> AsyncIterator[str]:
    """The address of a gateway's documentation."""
    keys = Secrets.load(site.data / "secrets.json").environment("gateway", "gateway-1")
    env = {
        **keys,
        "HONGBAO_LISTEN": "127.0.0.1:0",
        "HONGBAO_TOPOLOGY": str(site.access.topology_path),
        "HONGBAO_WALLET_URL": site.access.wallet_url,
        "HONGBAO_DOCS": str(handbook_site),
    }
    async with running_gateway(load(GatewaySettings, env)) as gateway:
        yield f"http://127.0.0.1:{gateway.port}/docs"


@pytest.mark.long
@pytest.mark.parametrize("phone", [True, False], ids=["phone", "desk"])
async def test_pages_are_readable(docs: str, visitors: Visitors, phone: bool) -> None:
    """Each kind of page fits its window, light and dark, breaks none of axe's rules, and the policy stops nothing."""
    reader = await (visitors.phone if phone else visitors.desk)("en-US")
    for name in PAGES:
        await reader.page.emulate_media(color_scheme="light")
        await reader.page.goto(f"{docs}/{name}.html")
        await expect(reader.page.get_by_role("heading", level=1)).to_be_visible()
        # The page goes by the system's theme while it stands, too: it is loaded once for both.
        grounds = set()
        for theme in ("light", "dark"):
            await reader.page.emulate_media(color_scheme=theme)
            grounds.add(await reader.page.evaluate("getComputedStyle(document.body).backgroundColor"))
            await reader.assert_not_wider_than_the_window()
            await reader.shot(f"docs-{name.replace('/', '-')}-{'phone' if phone else 'desk'}-{theme}")
            if name in BY_AXE:
                await reader.assert_accessible()
        assert len(grounds) == 2, (name, grounds)


async def test_pictures_are_there_and_take_the_colours_of_the_page(docs: str, visitors: Visitors) -> None:
    """A reader who chooses dark on a light system sees the dark picture: it differs from the light one."""
    reader = await visitors.desk()
    for name in PICTURES:
        await reader.page.goto(f"{docs}/explanation/{name}.html")
        picture = reader.page.locator(f'img[src$="{name}.svg"]')
        await picture.scroll_into_view_if_needed()
        assert await picture.evaluate("one => one.complete && one.naturalWidth > 0")
        light = await picture.screenshot()
        await reader.page.evaluate("document.body.dataset.theme = 'dark'")
        assert await picture.screenshot() != light
        await reader.shot(f"docs-{name}-chosen-dark")


async def test_a_word_is_found(docs: str, visitors: Visitors) -> None:
    """The search works without a server's help, and leads to the page."""
    reader = await visitors.desk()
    await reader.page.goto(f"{docs}/")
    await reader.page.get_by_role("search").get_by_role("textbox").fill("idempotency")
    await reader.page.keyboard.press("Enter")
    found = reader.page.locator("#search-results li a").first
    await expect(found).to_be_visible()
    await reader.shot("docs-search")


async def test_the_chosen_theme_is_kept(docs: str, visitors: Visitors) -> None:
    """The theme that a reader chooses holds on the next page, before it is painted."""
    reader = await visitors.desk()
    await reader.page.goto(f"{docs}/")
    before = await reader.page.evaluate("document.body.dataset.theme")
    await (
        reader.page.get_by_role("button", name="Toggle Light / Dark / Auto color theme").locator("visible=true").click()
    )
    chosen = await reader.page.evaluate("document.body.dataset.theme")
    assert chosen != before == "auto"
    await reader.page.goto(f"{docs}/glossary.html")
    assert await reader.page.evaluate("document.body.dataset.theme") == chosen


async def test_an_anchor_of_a_problem(docs: str, visitors: Visitors) -> None:
    """The entry of a code is where its anchor leads, in the site as on the one page."""
    reader = await visitors.phone("en-US")
    for page in (f"{docs}/reference/problems.html", docs):
        await reader.page.goto(f"{page}#route_not_found")
        await expect(reader.page.locator("#route_not_found")).to_be_in_viewport()
