"""What browser tests ask for: `site`, a running stack, and `visitors`, who open windows on it.

    pytestmark = BROWSER

    async def test_something(site, visitors):
        alice = await visitors.phone("zh-CN", dark=True)
        await alice.page.goto(site.access.gateway_url + "/docs")

All run in one loop, one worker, one browser and one stack, so that a test costs its own second and no start
(`conftest.py`). A test module imports `visitors` and names it in `__all__`. At the end of a test no visitor may have
met a problem that the test did not expect.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from errors import Refused, Unavailable
from local import play
from machine.account import Account
from tests.browser import axe
from tests.browser.chromium import launched
from tests.browser.visitor import Language, Visitor
from tests.conftest import _passable_folder
from tests.faults.stack_fixtures import Running, running_stack

BROWSER = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1440, "height": 900}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """The browser; where it cannot be had, the tests that need it are skipped and say why."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            browser = await stack.enter_async_context(launched(tmp_path_factory.mktemp("chromium")))
        except Refused as why:
            pytest.skip(f"no browser: {why.detail}")
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def axe_script() -> str | None:
    """The checker of accessibility. Where npm is missing pages are not held against it (`test_tools`)."""
    try:
        return await axe.source()
    except Unavailable:
        return None


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(account: Account, chromium: Browser) -> AsyncIterator[Running]:
    """Two SETs of two servers each, one stack for all browser tests (none is started where there is no browser).

    It has users to play with, as `./run` has.
    """
    del chromium
    with _passable_folder(account) as folder:
        config = {"notify": lambda _: None, "play_users": play.NAMES, "ops": True}
        async with running_stack(folder / "data", **config) as running:
            await play.give_money(running.access, play.NAMES)
            yield running


class Visitors:
    """Opens windows; each visitor has a context, that is cookies, storage and cache, of their own."""

    def __init__(self, browser: Browser, shots: Path, script: str | None, *, kept: bool) -> None:
        self._browser = browser
        self._shots = shots
        self._kept = kept
        self._axe = script
        self._all: list[Visitor] = []

    async def phone(self, language: Language = "zh-CN", *, dark: bool = False, calm: bool = False) -> Visitor:
        """Open a phone: 360 px wide, touch, two pixels a point. `calm`: prefers reduced motion."""
        return await self._open(
            language, dark, calm, viewport=PHONE, device_scale_factor=2, has_touch=True, is_mobile=True
        )

    async def desk(self, language: Language = "en-US", *, dark: bool = False, calm: bool = False) -> Visitor:
        """Open a window on a desk."""
        return await self._open(language, dark, calm, viewport=DESK)

    async def _open(self, language: Language, dark: bool, calm: bool, **more: Any) -> Visitor:
        context = await self._browser.new_context(
            locale=language,
            timezone_id="Asia/Shanghai",
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if calm else "no-preference",
            **more,
        )
        visitor = Visitor(await context.new_page(), context, self._shots, self._kept, self._axe)
        self._all.append(visitor)
        return visitor

    async def leave(self) -> list[str]:
        """Close all windows; returns the problems that nobody expected."""
        found = [problem for one in self._all for problem in one.unexpected()]
        for one in self._all:
            await one.context.close()
        return found


@pytest_asyncio.fixture(loop_scope="session")
async def visitors(
    chromium: Browser, axe_script: str | None, tmp_path: Path, pytestconfig: pytest.Config
) -> AsyncIterator[Visitors]:
    """People with windows of their own; at the end none may have met a problem."""
    shots = pytestconfig.getoption("--shots")
    folder = Path(shots).absolute() if shots else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    all_of_them = Visitors(chromium, folder, axe_script, kept=bool(shots))
    problems: list[str] = []
    try:
        yield all_of_them
    finally:
        problems = await all_of_them.leave()
    assert not problems, "\n".join(problems)
