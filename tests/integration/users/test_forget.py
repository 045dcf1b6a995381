"""A user is forgotten: the name stands nowhere any more, and everything else stands where it stood."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import duckdb
import pytest

from archive import rename
from errors import InvariantBroken
from schema.names import TableKind
from tests.integration.users.fixtures import ALICE, AlicesPast, past_of_alice

__all__ = ["past_of_alice"]


def _long(state: str) -> object:
    return pytest.param(state, marks=pytest.mark.long)


@pytest.mark.parametrize("state", ["hot", _long("closed"), _long("exported"), "verified", "dropped"])
async def test_the_name_stands_nowhere_and_the_audit_is_clean(past_of_alice: AlicesPast, state: str) -> None:
    """Whatever became of a day: no text of any table, and no file, has the name; no fen and no order number moved."""
    one = past_of_alice
    await one.take_to(state)
    assert await one.violations() == []
    assert len(await one.where(ALICE)) > 2
    await one.note_money()
    done = await one.forget()
    assert await one.where(ALICE) == []
    assert await one.violations() == []
    assert await one.money() == one.before
    assert done.of_another == 0
    assert done.words == []
    assert await one.where(done.pseudonym), "the pseudonym stands in its place"
    if state not in ("hot", "dropped"):
        await one.take_to("dropped")
        assert await one.where(ALICE) == []


async def test_words_of_operators_are_named_and_stay(past_of_alice: AlicesPast) -> None:
    """A line of the operation log that has the name as a word is told; one that has it within another is not."""
    one = past_of_alice
    for reason in (f"by {ALICE}.", f"by not-{ALICE}", f"by {ALICE}2"):
        await one.days.rows("INSERT INTO operation_log (who, what, reason) VALUES ('me', 'test', $1)", reason)
    first = await one.days.scalar("SELECT min(entry_id) FROM operation_log WHERE what = 'test'")
    assert (await one.forget()).words == [f"set-1: operation_log {first}"]
    assert await one.where(ALICE) == ["public.operation_log.reason"]


async def test_what_is_left_of_an_archive(past_of_alice: AlicesPast) -> None:
    """Only names, greetings and seals differ: all other columns of all rows are as they were."""
    one = past_of_alice
    await one.take_to("dropped")
    before = read(one)
    done = await one.forget()
    changed = 0
    for row, now in zip(before, read(one, {done.pseudonym: ALICE}), strict=True):
        differs = {name for name in row if row[name] != now[name]}
        assert differs <= {"greeting", "header_seal"}
        changed += bool(differs)
    assert changed == 4 + 2, "her own headers, and those that name her"


def read(one: AlicesPast, names: Mapping[str, str] = MappingProxyType({})) -> list[dict[str, Any]]:
    """All archived rows in one order, as texts, names replaced."""
    rows = []
    for path in one.installed.archive.folder.rglob("*.parquet"):
        with duckdb.connect() as duck:
            cursor = duck.execute(f"SELECT COLUMNS(*)::VARCHAR FROM '{path}'")
            columns = ["file", *(column[0] for column in cursor.description)]
            rows += [
                dict(zip(columns, (str(path), *(names.get(value, value) for value in values)), strict=True))
                for values in cursor.fetchall()
            ]
    return sorted(rows, key=lambda row: [str(row[name]) for name in row if name not in ("greeting", "header_seal")])


async def test_an_archive_that_would_differ_in_more_is_not_published(
    past_of_alice: AlicesPast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever wrote it: an amount that is another, or a name too many, ends the step before anything is changed."""
    one = past_of_alice
    await one.take_to("dropped")
    copy = rename._copy
    for changed in ("* REPLACE (amount_fen + 1 AS amount_fen)", "* REPLACE ('zoe' AS user_id)"):

        def wrong(duck: Any, table: Any, source: Any, target: Any, renaming: Any, changed: str = changed) -> None:
            copy(duck, table, source, target, renaming)
            if table.kind is TableKind.CLAIM:
                duck.execute(f"CREATE TEMP TABLE wrong AS SELECT {changed} FROM '{target}'")
                duck.execute(f"COPY wrong TO '{target}' (FORMAT parquet)")

        monkeypatch.setattr(rename, "_copy", wrong)
        before = read(one)
        with pytest.raises(InvariantBroken, match="only_names_change"):
            await one.forget()
        assert read(one) == before
    monkeypatch.setattr(rename, "_copy", copy)
    await one.forget()
    assert await one.where(ALICE) == []
