"""SET and wallet restored to before a user was forgotten: their register names the archives of before."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from archive import place
from errors import Refused
from schema import roles
from tests.conftest import Databases
from tests.integration.rotation.fixtures import DAY, XXS, OldDays
from tests.integration.users.fixtures import ALICE, HEADER_KEY, AlicesPast, past_of_alice
from users.installed import Installed, SetPlace

__all__ = ["past_of_alice"]


@asynccontextmanager
async def copy_of(dsn: str, name: str) -> AsyncIterator[str]:
    """A copy of a database as it is now."""
    parts = urlsplit(dsn)
    admin = await asyncpg.connect(urlunsplit(parts._replace(path="/postgres")))
    await admin.execute(f'CREATE DATABASE {name} OWNER {roles.OWNER} TEMPLATE "{parts.path[1:]}"')
    try:
        yield urlunsplit(parts._replace(path=f"/{name}"))
    finally:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()


def of_before(one: AlicesPast, databases: Databases, set_dsn: str, wallet_dsn: str, folder: Path) -> AlicesPast:
    """The same installation on the restored databases, with the archive as it is."""
    days = OldDays(databases, set_dsn, wallet_dsn, folder)
    days.real = one.days.real
    owner, audit = (
        [databases.dsn_as(dsn, role) for dsn in (set_dsn, wallet_dsn)] for role in (roles.OWNER, roles.AUDIT)
    )
    at = SetPlace("set-1", owner[0], audit[0], lambda _: range(10 * len(XXS)))
    return AlicesPast(days, Installed([at], owner[1], audit[1], one.installed.archive, HEADER_KEY))


@pytest.mark.parametrize("state", [pytest.param("verified", marks=pytest.mark.long), "dropped"])
async def test_restored_to_before_it_is_done_again_with_the_archives_of_before(
    past_of_alice: AlicesPast, databases: Databases, tmp_path: Path, state: str
) -> None:
    """With those moved away that were written since; the old ones from a copy, or anew from tables that stand."""
    one, kept = past_of_alice, tmp_path / "kept"
    await one.take_to(state)
    root = one.installed.archive.folder
    shutil.copytree(root, kept)
    name = urlsplit(one.days.set_dsn).path[1:]
    async with (
        copy_of(one.days.set_dsn, f"{name}_before") as set_dsn,
        copy_of(one.days.wallet_dsn, f"{name}_wallet_before") as wallet_dsn,
    ):
        await one.forget()
        again = of_before(one, databases, set_dsn, wallet_dsn, tmp_path)
        with pytest.raises(Refused, match="not the one that the register names"):
            await again.forget()
        for xx in XXS:
            where = place.folder_of(root, xx=xx, day=DAY)
            where.rename(tmp_path / f"since-{xx}")
            if state == "dropped":
                shutil.copytree(place.folder_of(kept, xx=xx, day=DAY), where)
        if state == "verified":
            assert await again.days.run() == {0: "verified", 1: "verified"}
        assert await again.violations() == []
        await again.forget()
        assert await again.where(ALICE) == []
        assert await again.violations() == []
    for xx in XXS:  # the books of the databases that were not restored, at the end, are those of the archives since
        where = place.folder_of(root, xx=xx, day=DAY)
        shutil.rmtree(where)
        (tmp_path / f"since-{xx}").rename(where)
