"""Where the repository stands, for those who run from a checkout."""

from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
SETUP: Final = CHECKOUT / "cluster" / "setup"
"""The scripts that make the Python environment and fetch what pip does not have."""
