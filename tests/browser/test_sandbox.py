"""The page of a sandbox: it says so, and goes by the clock there."""

import re
from datetime import timedelta
from pathlib import Path

from playwright.async_api import expect

from client import Hongbao
from local import play
from tests import forks
from tests.browser.fixtures import BROWSER, Visitors, visitors
from tests.faults.stack_fixtures import running_stack

__all__ = ["visitors"]

pytestmark = BROWSER

LOOK_MS = 15_000
"""For a page to notice a move: it asks every five seconds."""


async def test_the_page_goes_by_the_clock_of_the_sandbox(server_folder: Path, visitors: Visitors) -> None:
    """Its header tells the time there, and an envelope that opens in hours can be opened once the clock was moved."""
    config = {"notify": lambda _: None, "play_users": play.NAMES, "sandbox": True, "sets": 1, "servers": 1}
    async with running_stack(server_folder / "data", **config) as sandbox:
        await play.give_money(sandbox.access, ("alice",))
        opens_at = sandbox.access.clock.now() + timedelta(hours=5, minutes=30)
        async with Hongbao(sandbox.access.gateway_url) as hongbao:
            envelope = await hongbao.play("alice").create(total_fen=500, count=2, opens_at=opens_at)
        link = f"{sandbox.access.gateway_url}/s/{envelope.share_id}"
        bob = await visitors.phone("zh-CN")
        await bob.page.goto(link)
        await bob.page.get_by_role("button", name="bob", exact=True).click()
        countdown = bob.page.get_by_role("timer")
        await expect(countdown).to_have_text(re.compile("^05:"))
        header = bob.page.locator("#sandbox")
        await expect(header).to_contain_text("沙箱")
        await bob.assert_not_wider_than_the_window()
        await bob.assert_accessible()
        await bob.shot("sandbox")
        ended = await forks.hongbao("clock", "+3h", "--data", str(sandbox.data))
        assert ended.status == 0
        await expect(countdown).to_have_text(re.compile("^02:"), timeout=LOOK_MS)
        ended = await forks.hongbao("clock", "+3h", "--data", str(sandbox.data))
        assert ended.status == 0
        await bob.page.locator("#coin").click(timeout=LOOK_MS)
        await expect(bob.page.locator("#win .amount")).to_be_visible()
        there = sandbox.access.clock.now().astimezone(sandbox.access.topology().zone)
        await expect(header).to_contain_text(f"{there:%H}:")
