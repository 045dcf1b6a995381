"""One window of a browser, as a person has it: a phone or a desk, with what it said to its console."""

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.async_api import BrowserContext, CDPSession, ConsoleMessage, Page, Request, expect

from tests.browser import axe

Language = Literal["zh-CN", "en-US"]
LATENCY_MS = 400
BROKEN_MS = 10_000
"""A paint that takes longer is a broken page on any machine. What it took stands beside the screenshots, in
`figures.txt`; our aim, on a quiet machine, is 2,500."""
TARGET_PX = 44
SHOWN = 4
"""Elements that are named for a rule that is broken."""
CPU = 4
"""How much slower a cheap phone in a bad network is."""
_BYTES_PER_S = 1_600_000 // 8
_LOST = re.compile(r"ERR_INTERNET_DISCONNECTED|ERR_NETWORK_CHANGED|Failed to fetch|network error")
expect.set_options(timeout=10_000)


@dataclass
class Visitor:
    """A page and its context; `problems` are errors of the console, of scripts, and requests that failed."""

    page: Page
    context: BrowserContext
    shots: Path
    kept: bool
    """Whether somebody is to look at the screenshots (--shots)."""
    axe: str | None
    """The script of axe, None where npm is missing."""
    problems: list[str] = field(default_factory=list)
    _expected: list[re.Pattern[str]] = field(default_factory=list)
    _slow: bool = False
    _session: CDPSession | None = None

    def __post_init__(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        self.page.on("requestfailed", self._failed)

    def expect_problem(self, pattern: str) -> None:
        """Take problems that match `pattern` for expected from the beginning, such as those of being offline."""
        self._expected.append(re.compile(pattern))

    def unexpected(self) -> list[str]:
        """Return what went wrong and was not expected."""
        return [one for one in self.problems if not any(pattern.search(one) for pattern in self._expected)]

    async def shot(self, name: str, *, full_page: bool = False, after_s: float = 0) -> None:
        """Write a screenshot, `<name>.png`, to the folder of --shots; without --shots none is made.

        What moves has come to rest by then, but for what never does. `full_page`: in a window as tall as the page,
        whose bar at the foot stands beside what scrolls. `after_s`: with --shots wait so long before, so that there is
        something to look at.
        """
        if not self.kept:
            # A tenth of a second of CPU each, and no test looks at one.
            await self.rest()
            return
        await self.page.wait_for_timeout(after_s * 1000)
        await self.rest()
        window = self.page.viewport_size
        if full_page and window is not None:
            more = await self.page.evaluate(
                """() => Math.max(...[document.documentElement, ...document.querySelectorAll('.screen')]
                    .map(one => one.scrollHeight - one.clientHeight))"""
            )
            await self.page.set_viewport_size({**window, "height": window["height"] + more})
        await self.page.screenshot(path=self.shots / f"{name}.png")
        if full_page and window is not None:
            await self.page.set_viewport_size(window)

    async def rest(self) -> None:
        """Wait until what moves has come to rest, but for what never does."""
        await self.page.evaluate(
            """() => Promise.allSettled(document.getAnimations()
                .filter(one => one.effect?.getTiming().iterations !== Infinity).map(one => one.finished))"""
        )

    async def assert_accessible(self) -> None:
        """Hold the page as it is now against axe's rules; passes where npm is missing, which `test_tools.py` tells."""
        if self.axe is None:
            return
        await self.rest()
        found = await axe.violations(self.page, self.axe)
        assert not found, "\n".join(
            f"{one['rule']}: {one['help']}\n  " + "\n  ".join(one["where"][:SHOWN]) for one in found
        )

    async def assert_not_wider_than_the_window(self) -> None:
        """Nothing may make the page scroll sideways."""
        wide, window = await self.page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window, f"the page is {wide} px wide in a window of {window}"

    async def assert_large_targets(self, selector: str = "button, nav a, input, select, summary") -> None:
        """Whatever a finger is to hit is at least TARGET_PX high and wide."""
        small = await self.page.evaluate(
            """([selector, least]) => [...document.querySelectorAll(selector)].filter(one => one.checkVisibility())
                .map(one => [one, one.getBoundingClientRect()])
                .filter(([_, box]) => box.height < least || box.width < least)
                .map(([one, box]) => `${one.outerHTML.slice(0, 80)}: ${box.width} x ${box.height}`)""",
            [selector, TARGET_PX],
        )
        assert not small, "\n".join(small)

    @contextlib.asynccontextmanager
    async def offline(self) -> AsyncIterator[None]:
        """Take the network away for the block; that requests fail meanwhile is expected."""
        before = len(self.problems)
        await self._network(offline=True)
        try:
            yield
        finally:
            await self._network(offline=False)
            self.problems[before:] = [one for one in self.problems[before:] if not _LOST.search(one)]

    async def slow_down(self) -> None:
        """From now on be a cheap phone in a bad network: 400 ms of latency, a quarter of the speed."""
        self._slow = True
        await self._network(offline=False)
        await (await self._devtools()).send("Emulation.setCPUThrottlingRate", {"rate": CPU})

    async def _network(self, *, offline: bool) -> None:
        # Not by Playwright's set_offline: the network's conditions are one state, and the last who sets it wins.
        speed = _BYTES_PER_S if self._slow else -1
        conditions = {"offline": offline, "latency": LATENCY_MS if self._slow else 0}
        conditions |= {"downloadThroughput": speed, "uploadThroughput": speed}
        devtools = await self._devtools()
        await devtools.send("Network.enable")
        await devtools.send("Network.emulateNetworkConditions", conditions)

    async def _devtools(self) -> CDPSession:
        if self._session is None:
            self._session = await self.context.new_cdp_session(self.page)
        return self._session

    async def largest_paint_ms(self) -> float:
        """Return when the largest part of the page was painted (LCP), in ms since the navigation began."""
        ms: float = await self.page.evaluate(
            """() => new Promise(done => new PerformanceObserver(list => done(list.getEntries().at(-1).startTime))
                .observe({type: "largest-contentful-paint", buffered: true}))"""
        )
        return ms

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            where = message.location.get("url", "")
            self.problems.append(f"console: {message.text} ({where})")

    def _failed(self, request: Request) -> None:
        # A page that is left, or a stream that its reader closes, aborts requests: that is no failure.
        if request.failure and "ERR_ABORTED" not in request.failure:
            self.problems.append(f"request: {request.method} {request.url}: {request.failure}")
