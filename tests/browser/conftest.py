"""One browser and one stack for all browser tests (tests/integration/conftest.py says why they stand here)."""

from tests.browser.fixtures import axe_script, chromium, site

__all__ = ["axe_script", "chromium", "site"]
