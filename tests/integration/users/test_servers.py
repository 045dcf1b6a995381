"""What servers remember: none shows the old name after the command, and money finds the account that it belongs to."""

from typing import Any

import pytest

from archive.place import Archive
from days import crash_points
from errors import HongbaoError
from schema import roles
from tests.integration.archive.fixtures import KEY, detach
from tests.integration.archive.past import Past, past
from tests.integration.rotation.fixtures import TODAY
from tests.integration.setnode.fixtures import PASSWORD_KEY, SMALL, XXS
from tests.integration.users.fixtures import BY
from users.forget import Forgotten, forget
from users.installed import Installed, SetPlace
from wire.messages import Op

__all__ = ["past"]


async def forget_user(past: Past, user: str) -> Forgotten:
    town = past.town
    assert town.databases is not None
    owner, audit = (
        [town.databases.dsn_as(dsn, role) for dsn in (town.set_dsn, town.wallet_dsn)]
        for role in (roles.OWNER, roles.AUDIT)
    )
    place = SetPlace("set-1", owner[0], audit[0], lambda _: range(SMALL.slots))
    at = Installed([place], owner[1], audit[1], Archive(past.folder, KEY), PASSWORD_KEY.encode())
    return await forget(at, user, BY, TODAY, leave_balance=True)


def shown(told: dict[Any, Any], user: str) -> list[Any]:
    """Name what was told with the user in it, to others than the user."""
    return [key for key, one in told.items() if f": '{user}'" in repr(one)]


@pytest.mark.long
async def test_no_server_shows_the_name_afterwards(past: Past) -> None:
    """Logs in memory, hot and cold, are read again: winner, receiver, sender, greeting; none is away or frozen."""
    assert shown(await past.everything(), "ann")
    for user in ("ann", "again"):
        gone = await forget_user(past, user)
        told = await past.everything()
        assert (shown(told, user), bool(shown(told, gone.pseudonym))) == ([], True)
        assert "invariant_broken" not in told.values(), "a header that was written anew is sealed"
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    await past.look()
    assert shown(await past.everything(), "u1"), "read once, and remembered"
    await forget_user(past, "u1")
    assert shown(await past.everything(), "u1") == []
    await past.archive()
    await past.drop()
    before = await past.everything()
    assert shown(before, "sender"), "read once, and remembered"
    assert "恭喜发财" in repr(before)
    gone = await forget_user(past, "sender")
    told = await past.everything()
    assert (shown(told, "sender"), "恭喜发财" in repr(told)) == ([], False)
    assert shown(told, gone.pseudonym)
    assert "archive_unavailable" not in told.values()


async def test_the_name_begins_anew_and_the_wallet_finds_its_account(past: Past) -> None:
    """Tokens of the user go on: an account with nothing begins, whatever number of it the wallet remembers."""
    town = past.town
    await town.deposit("u0", 1)
    had = await town.scalar("SELECT balance_fen FROM account WHERE name = 'user:u0'", wallet=True)
    gone = await forget_user(past, "u0")
    await town.deposit("u0", 5)
    balances = dict(await town.rows("SELECT name, balance_fen FROM account", wallet=True))
    assert (balances["user:u0"], balances[f"user:{gone.pseudonym}"]) == (5, had)
    again = await town.create(200, 2)
    assert (await town.open(again, "u0"))["result"] == "opened"
    await town.paid_out()
    balances = dict(await town.rows("SELECT name, balance_fen FROM account", wallet=True))
    assert (balances["user:u0"] > 5, balances[f"user:{gone.pseudonym}"]) == (True, had)


async def test_a_create_that_is_repeated_afterwards_moves_nothing(past: Past) -> None:
    """The same key and body: the same envelope, under the pseudonym and without the words; no fen moves."""
    town = past.town
    gone = await forget_user(past, "again")
    money = await town.rows("SELECT account_id, balance_fen FROM account ORDER BY 1", wallet=True)
    args = past.replay[:-1]
    replayed, envelope_id, view = await town.caller.ask(town.owner(args[3][0]), Op.CREATE, args)
    assert (replayed, envelope_id) == (True, past.envelopes["repeated"])
    assert view["sender"] == gone.pseudonym
    assert await town.rows("SELECT account_id, balance_fen FROM account ORDER BY 1", wallet=True) == money


async def test_who_acts_while_it_is_done_keeps_what_is_theirs(past: Past) -> None:
    """After the account was renamed the user sends and wins: that is a new account's, and is not renamed with the old.

    Named in an envelope that is still open, the user is no more invited to it, and others open it as ever.
    """
    town = past.town
    named = await town.create(300, 3, to=["u0", "bob", "u2"])
    await town.open(named, "u2", token_ok=False)
    other = await town.create(400, 4)
    await town.open(other, "u0")
    await town.paid_out()

    def stop(point: str) -> None:
        if point == "begun":
            raise RuntimeError(point)

    with crash_points.armed(stop), pytest.raises(RuntimeError):
        await forget_user(past, "u0")
    own = await town.create(500, 5, sender="u0")
    third = await town.create(600, 6)
    assert (await town.open(third, "u0"))["result"] == "opened"
    await town.paid_out()
    done = await forget_user(past, "u0")
    assert done.of_another == 2
    assert [row["envelope_id"] for row in await town.rows("SELECT envelope_id FROM claim WHERE user_id = 'u0'")] == [
        third
    ]
    assert await town.scalar("SELECT sender FROM envelope WHERE envelope_id = $1", own) == "u0"
    assert done.pseudonym in repr(await town.detail(other, "sender"))
    with pytest.raises(HongbaoError, match="not_invited"):
        await town.detail(named, "u0", token_ok=False)
    assert (await town.open(named, "bob", token_ok=False))["result"] == "opened"
