"""The database roles by name: who logs in where, and what they may is in the migrations' grants."""

from typing import Final

DATABASE: Final = "hongbao"
"""The one database of every server of ours."""
OWNER: Final = "hongbao_owner"
"""Owns all tables: migrations, day tables, rotation and moves run as it."""
SETNODE: Final = "hongbao_setnode"
WALLET: Final = "hongbao_wallet"
AUDIT: Final = "hongbao_audit"
"""Reads everything, and writes nothing but that a job has run (`schema.jobs`)."""
EVENTS: Final = "hongbao_events"
"""Reads what is told of commits, and keeps how far each receiver has come; it sees neither claims nor headers."""


def roles_of(kind: str) -> tuple[str, ...]:
    """Return who logs in to a server of `kind` ("set" or "wallet"); the superuser is for the runner alone."""
    return ("postgres", OWNER, AUDIT, *((WALLET,) if kind == "wallet" else (SETNODE, EVENTS)))
