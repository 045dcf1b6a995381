"""The SQL of the audit, one statement per file. All of it reads; the audit's role can do nothing else."""

from pathlib import Path

_HERE = Path(__file__).parent


def read(name: str) -> str:
    """Return the text of `NAME.sql`."""
    return (_HERE / f"{name}.sql").read_text(encoding="utf-8")
