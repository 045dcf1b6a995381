"""SQL in named files, read once at import."""

from pathlib import Path

_HERE = Path(__file__).parent


def read(name: str) -> str:
    """Return the text of query `name`."""
    return (_HERE / f"{name}.sql").read_text(encoding="utf-8")
