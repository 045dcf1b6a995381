"""Where the repository is: the programs run from a checkout of it."""

from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[1]
SETUP: Final = CHECKOUT / "setup"
"""The scripts that make the Python environment and fetch programs that pip does not have."""
