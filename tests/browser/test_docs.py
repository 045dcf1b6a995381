"""The page of the API's document, as a developer sees it on a phone and on a desk."""

import pytest
from playwright.async_api import Error, expect

from tests.browser.fixtures import BROWSER, Visitors, visitors
from tests.browser.visitor import BROKEN_MS, LATENCY_MS
from tests.faults.stack_fixtures import Running

__all__ = ["visitors"]

pytestmark = BROWSER


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_document_is_readable_on_a_phone(site: Running, visitors: Visitors, dark: bool) -> None:
    """`/docs` fits a phone, names each problem, breaks none of axe's rules and says nothing to the console."""
    reader = await visitors.phone("en-US", dark=dark)
    await reader.page.goto(f"{site.access.gateway_url}/docs")
    await expect(reader.page.get_by_role("heading", level=1)).to_be_visible()
    await expect(reader.page.locator("tr#wrong_set")).to_be_attached()
    await reader.assert_accessible()
    await reader.assert_not_wider_than_the_window()
    await reader.shot(f"docs-{'dark' if dark else 'light'}")


async def test_the_document_comes_in_a_bad_network_too(site: Running, visitors: Visitors) -> None:
    """At a quarter of the speed and 400 ms of latency it is painted; without a network it is not there."""
    reader = await visitors.phone("en-US")
    await reader.slow_down()
    await reader.page.goto(f"{site.access.gateway_url}/docs")
    assert LATENCY_MS < await reader.largest_paint_ms() <= BROKEN_MS
    async with reader.offline():
        with pytest.raises(Error, match="ERR_INTERNET_DISCONNECTED"):
            await reader.page.reload()
    await reader.page.reload()
    await expect(reader.page.get_by_role("heading", level=1)).to_be_visible()
