"""The SQL of a DBA's look at a SET, one statement per file. All of it reads."""

from pathlib import Path

_HERE = Path(__file__).parent


def read(name: str) -> str:
    """Return the text of `NAME.sql`."""
    return (_HERE / f"{name}.sql").read_text(encoding="utf-8")
