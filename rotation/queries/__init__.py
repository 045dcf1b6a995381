"""The SQL of this room that is more than a line; each file says what it means, its index and its lock."""

from pathlib import Path

_HERE = Path(__file__).parent


def read(name: str) -> str:
    """Return the text of `NAME.sql`; called once per statement, at import."""
    return (_HERE / f"{name}.sql").read_text(encoding="utf-8")
