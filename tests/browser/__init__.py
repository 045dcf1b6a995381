"""Tests in a real browser: chromium, driven by Playwright, on a running stack.

`chromium.py` gets the browser and its fonts, `npm.py` packages of npm, `axe.py` the checker of accessibility;
`visitor.py` is one window of a phone or a desk, `fixtures.py` what tests ask for.
"""
