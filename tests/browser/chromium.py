"""Debian's chromium without a screen, and fonts for Chinese and emoji: on PATH, or fetched without root into .tools."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from playwright.async_api import Browser, async_playwright

from machine.account import own_account
from machine.debian_programs import find_file, find_program

PACKAGE = "chromium-headless-shell"
_FONTS = {
    "fonts-wqy-microhei": "usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "fonts-noto-color-emoji": "usr/share/fonts/truetype/noto/NotoColorEmoji.ttf",
}
# These fonts alone, so that a page looks the same on every machine.
_CONFIGURATION = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
{folders}<cachedir>{cache}</cachedir>
<alias><family>monospace</family><prefer><family>WenQuanYi Micro Hei Mono</family></prefer></alias>
</fontconfig>
"""


@contextlib.asynccontextmanager
async def launched(folder: Path) -> AsyncIterator[Browser]:
    """Run the browser for the block; `folder` holds its fonts' cache. Raises Refused if it cannot be had."""
    program = await find_program(PACKAGE, own_account(), folder, file=f"usr/lib/chromium/{PACKAGE}")
    fonts = [await find_file(package, font) for package, font in _FONTS.items()]
    configuration = folder / "fonts.conf"
    folders = "".join(f"<dir>{font.parent}</dir>" for font in fonts)
    configuration.write_text(_CONFIGURATION.format(folders=folders, cache=folder / "fonts"))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program.path,
            # It opens our own pages only, and as root, or in a container, there is no sandbox to be had.
            chromium_sandbox=False,
            env={**os.environ, **program.env(), "FONTCONFIG_FILE": str(configuration)},
        )
        try:
            yield browser
        finally:
            await browser.close()
