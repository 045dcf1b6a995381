"""The readable schema is what the migrations build."""

from pathlib import Path

import asyncpg

import schema
from schema.migrate import migrate_wallet

_LOOK = {
    "columns": """SELECT table_name, column_name, data_type, character_maximum_length, collation_name, is_nullable,
        column_default, identity_generation, ordinal_position FROM information_schema.columns
        WHERE table_schema = 'public' ORDER BY 1, 2""",
    "constraints": """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
    "options": """SELECT relname, reloptions::text, relacl::text FROM pg_class
        WHERE relnamespace = 'public'::regnamespace ORDER BY 1""",
    "column grants": """SELECT attrelid::regclass::text, attname, attacl::text FROM pg_attribute
        WHERE attacl IS NOT NULL ORDER BY 1, 2""",
}


async def _look(dsn: str) -> dict[str, list[tuple]]:
    connection = await asyncpg.connect(dsn)
    await connection.execute("DROP TABLE IF EXISTS migration")
    seen = {what: [tuple(row) for row in await connection.fetch(query)] for what, query in _LOOK.items()}
    await connection.close()
    return seen


async def test_migrations_give_the_readable_schema(databases):
    """Tables, constraints, indexes, options and grants are the same on both ways."""
    migrated, readable = await databases.empty(), await databases.empty()
    await migrate_wallet(migrated)
    connection = await asyncpg.connect(readable)
    await connection.execute((Path(schema.__file__).parent / "wallet.sql").read_text(encoding="utf-8"))
    await connection.close()
    one, other = await _look(migrated), await _look(readable)
    assert one["constraints"]
    assert one == other
