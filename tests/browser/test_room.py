"""The group chat: one person alone sees what a crowd is."""

import asyncio
import random
import re

import pytest
from playwright.async_api import expect

from demo import room as room_module
from demo.people import People
from demo.room import Room
from local import play
from tests.browser.fixtures import BROWSER, Visitors, visitors
from tests.browser.visitor import Language
from tests.faults.stack_fixtures import Running

__all__ = ["visitors"]

pytestmark = BROWSER

VISITOR = "alice"


@pytest.mark.parametrize(("language", "dark"), [("zh-CN", False), ("en-US", True)], ids=["zh-light", "en-dark"])
async def test_a_crowd_opens_beside_the_visitor(
    site: Running, visitors: Visitors, monkeypatch: pytest.MonkeyPatch, language: Language, dark: bool
) -> None:
    """Envelopes come, others open them as one looks, one opens one's own share, and sends to everybody."""
    monkeypatch.setattr(room_module, "SEND_S", (0.8, 1.2))
    monkeypatch.setattr(room_module, "LOOK_S", 0.3)
    monkeypatch.setattr(room_module, "TAP_S", 1.0)
    one = await visitors.phone(language, dark=dark)
    page, look = one.page, f"{language[:2]}-{'dark' if dark else 'light'}"
    await page.goto(site.access.gateway_url)
    await page.get_by_role("button", name=VISITOR, exact=True).click()
    await page.locator("#go-room").click()
    async with People(site.access.gateway_url, site.access.token) as people:
        room, stop = Room(people, play.NAMES, VISITOR, random.Random(5), lambda _: None), asyncio.Event()
        playing = asyncio.ensure_future(room.run(stop))
        try:
            bubbles = page.locator(".bubble:not(.bubble-pale)")
            await expect(bubbles.first).to_be_visible()
            await expect(page.locator(".chat-note").first).to_be_visible()
            await page.locator("#room-count").fill("5")
            await page.locator("#room-amount").fill("6.66")
            await page.locator("#room-send").click()
            mine = page.locator(".chat-mine .bubble").last
            await expect(mine).to_contain_text(re.compile(r"5/5|领完|All gone"), timeout=20_000)
            await one.assert_not_wider_than_the_window()
            await one.assert_accessible()
            await one.shot(f"room-{look}")
            waits = page.locator(".bubble:not(.bubble-pale)").last
            await expect(waits).to_be_visible()
            await waits.click()
            await expect(page.locator("#coin, .sentence h2, #win").first).to_be_visible()
        finally:
            stop.set()
            await playing
    assert room.seen.contradictions == []
    assert room.seen.visitor_sent == 1
