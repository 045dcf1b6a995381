"""axe-core, the checker of accessibility: from npm, put into a page, asked for what it finds wrong."""

from typing import Any

from playwright.async_api import Page

from tests.browser.npm import packed

VERSION = "4.14.1"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

_RUN = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(one => ({
    rule: one.id, help: one.help, where: one.nodes.map(node => node.target.join(" ") + ": " + node.failureSummary)}))"""


async def source() -> str:
    """Return the script; raises Unavailable `no_npm`."""
    return (await packed("axe-core", VERSION, "axe.min.js", SHA256)).decode()


async def violations(page: Page, script: str) -> list[dict[str, Any]]:
    """Return what axe finds wrong in the page as it is now: rule, help, and the elements."""
    if not await page.evaluate("() => 'axe' in window"):
        await page.evaluate(script)
    found: list[dict[str, Any]] = await page.evaluate(_RUN)
    return found
