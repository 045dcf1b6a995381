"""What a database's catalog says of its schema, for comparing two ways that lead to it."""

from pathlib import Path

import asyncpg

import schema

_LOOK = {
    "columns": """SELECT table_name, column_name, data_type, character_maximum_length, collation_name, is_nullable,
        column_default, identity_generation, ordinal_position FROM information_schema.columns
        WHERE table_schema = 'public' ORDER BY 1, 2""",
    "constraints": """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
    "triggers": """SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger
        WHERE NOT tgisinternal AND tgparentid = 0 ORDER BY 1, 2""",
    "functions": """SELECT proname, pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace ORDER BY 1""",
    "options": """SELECT relname, relkind::text, reloptions::text, relacl::text, pg_get_partkeydef(oid) FROM pg_class
        WHERE relnamespace = 'public'::regnamespace ORDER BY 1""",
    "column grants": """SELECT attrelid::regclass::text, attname, attacl::text FROM pg_attribute
        WHERE attacl IS NOT NULL ORDER BY 1, 2""",
    "schema grants": "SELECT nspname, nspacl::text FROM pg_namespace WHERE nspname = 'public'",
}


async def look(dsn: str) -> dict[str, list[tuple]]:
    """Return everything that a schema consists of, but the list of migrations."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("DROP TABLE IF EXISTS migration")
    seen = {what: [tuple(row) for row in await connection.fetch(query)] for what, query in _LOOK.items()}
    await connection.close()
    return seen


async def read_into(dsn: str, name: str) -> None:
    """Run the readable schema `name`.sql."""
    connection = await asyncpg.connect(dsn)
    await connection.execute((Path(schema.__file__).parent / f"{name}.sql").read_text(encoding="utf-8"))
    await connection.close()
