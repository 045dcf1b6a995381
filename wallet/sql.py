"""The wallet's queries by name, read once from `queries/*.sql` (comments stay: Postgres' own views then show them)."""

from importlib.resources import files
from typing import Final


def _load() -> dict[str, str]:
    folder = files("wallet") / "queries"
    return {
        entry.name.removesuffix(".sql"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }


SQL: Final = _load()
