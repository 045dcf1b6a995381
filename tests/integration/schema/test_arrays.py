"""What a batch is written as is what Postgres reads: texts of every kind, numbers to both ends, NULL for None."""

import asyncpg
import pytest

from runtime.postgres.arrays import flags, numbers, texts, texts_or_null
from wallet.postings import TransferKind

NASTY = [
    "", "plain", "NULL", "null", "a,b", "{}", "{a}", '"', '""', '","', "\\", '\\"', "'", "a b", " a ", "\n\t",
    "新年快乐", "🧧", "$1", "%s", "\u2028", '\\","x', "\x01",
]  # fmt: skip


@pytest.fixture
async def connection(databases):
    opened = await asyncpg.connect(await databases.empty())
    yield opened
    await opened.close()


@pytest.mark.parametrize("values", [[], NASTY, *([one] for one in NASTY), ['"', "a"], ["a", '"'], ['"'] * 3])
async def test_texts_come_out_as_they_went_in(connection, values):
    """Quotes, braces, commas and backslashes are nothing but text, whatever stands beside them."""
    assert await connection.fetchval("SELECT $1::text::text[]", texts(values)) == values
    assert await connection.fetchval("SELECT $1::text::varchar[]", texts(tuple(values))) == values


async def test_numbers_come_out_as_they_went_in(connection):
    """Both ends of bigint, none at all, lists and tuples, and numbers that have a name."""
    for values in ([], [0], [-(2**63), None, 2**63 - 1, 7], [None], [TransferKind.FUND, TransferKind.REFUND]):
        assert await connection.fetchval("SELECT $1::text::bigint[]", numbers(values)) == values
        assert await connection.fetchval("SELECT $1::text::bigint[]", numbers(tuple(values))) == values


async def test_none_and_flags(connection):
    """None is NULL and the word is not; flags are booleans."""
    values = [None, *NASTY, None]
    assert await connection.fetchval("SELECT $1::text::text[]", texts_or_null(values)) == values
    for some in ([], [True], [False, True]):
        assert await connection.fetchval("SELECT $1::text::boolean[]", flags(some)) == some
    assert await connection.fetchval("SELECT $1::text::text[]", texts_or_null([])) == []


async def test_what_no_text_can_hold_is_refused(connection):
    """Postgres keeps no NUL; the statement fails before anything is written."""
    with pytest.raises(asyncpg.CharacterNotInRepertoireError):
        await connection.fetchval("SELECT $1::text::text[]", texts(["a\x00b"]))
