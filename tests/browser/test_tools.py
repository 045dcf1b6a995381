"""The tools of browser tests: a checker that finds nothing, or a console that nobody reads, would prove nothing."""

from pathlib import Path

import pytest

from errors import Unavailable
from tests.browser import axe
from tests.browser.fixtures import BROWSER, Visitors, visitors
from tests.browser.npm import packed

__all__ = ["visitors"]

pytestmark = BROWSER

_BAD = "<!doctype html><html lang='en'><title>t</title><main><h1>t</h1><button></button><p style='color:#eee'>pale"


async def test_axe_names_what_is_wrong(visitors: Visitors, axe_script: str | None) -> None:
    """A button without a name and pale text are found; without npm this is skipped and no page is held against axe."""
    if axe_script is None:
        try:
            await axe.source()
        except Unavailable as why:
            pytest.skip(f"no page is held against axe: {why.detail}")
    one = await visitors.phone()
    await one.page.set_content(_BAD)
    with pytest.raises(AssertionError, match=r"(?s)button-name.*color-contrast|color-contrast.*button-name"):
        await one.assert_accessible()


async def test_what_a_page_says_to_the_console_is_a_problem(visitors: Visitors) -> None:
    """An error of a script, and one that is logged, is unexpected until the test expects it."""
    one = await visitors.phone()
    async with one.page.expect_event("pageerror"):
        await one.page.set_content("<script>console.error('logged'); throw new Error('thrown')</script>")
    assert sorted(problem.split(" (")[0] for problem in one.unexpected()) == ["console: logged", "script: thrown"]
    one.expect_problem("logged|thrown")


async def test_a_file_of_npm_with_another_hash_is_refused(tmp_path: Path) -> None:
    """A package that is not byte for byte the one that was read is a failure, and is not kept."""
    try:
        with pytest.raises(AssertionError, match="has the SHA-256"):
            await packed("htm", "3.1.1", "package.json", "0" * 64, tmp_path)
    except Unavailable as why:
        pytest.skip(why.detail)
    assert not list(tmp_path.glob("htm-3.1.1/package.json"))
