"""Brings a database up to date before any process uses it."""

from schema.migrate import migrate_set, migrate_wallet


async def migrate(kind: str, dsn: str) -> None:
    """Migrate the database of a SET or of the wallet, as its owner. Idempotent."""
    await (migrate_wallet if kind == "wallet" else migrate_set)(dsn)
