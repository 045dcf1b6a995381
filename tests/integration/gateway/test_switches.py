"""What operators have closed, over HTTP: 503 `degraded` for that, and nothing else."""

from datetime import UTC, datetime, timedelta

from switches.file import beside, change
from switches.switch import Switch, read_name
from tests.integration.gateway.fixtures import Door, door, some_id

__all__ = ["door"]

CREATE = {"kind": "equal", "total_fen": 2, "count": 2}


async def close(door: Door, *names: str) -> None:
    """Close these, and nothing else, as the command does; wait until the gateway goes by it."""
    now = datetime.now(UTC)
    made = []
    for name in names:
        closes, where = read_name(name)
        until = now + timedelta(hours=1)
        made.append(Switch(closes=closes, where=where, owner="ann", reason="secret", since=now, until=until))
    change(beside(door.topology), lambda _: made, now)
    board = door.gateway.switches
    await door.until(lambda: board._names == {one.name for one in made})


async def codes(door: Door) -> dict[str, str]:
    """Return what each kind of request is answered: its code, or "ok"."""
    found = {}
    for kind, call in {
        "create": ("POST", "/v1/envelopes", "alice", CREATE),
        "open": ("POST", f"/v1/envelopes/{some_id()}/open", "bob"),
        "grab": ("POST", f"/v1/envelopes/{some_id()}/grab", "bob"),
        "cancel": ("POST", f"/v1/envelopes/{some_id()}/cancel", "alice"),
        "view": ("GET", f"/v1/envelopes/{some_id()}", "bob"),
        "balance": ("GET", "/v1/me/wallet", "bob"),
        "health": ("GET", "/healthz", None),
    }.items():
        headers = {"Idempotency-Key": some_id()} if kind == "create" else {}
        status, answered, told = await door.call(*call, **headers)
        found[kind] = "ok" if status < 400 else told["code"]
        if found[kind] == "degraded":
            assert (status, told["retry"], answered["Retry-After"]) == (503, "later", "60")
            assert "secret" not in told["detail"]
    return found


async def test_each_switch_closes_its_kind(door: Door) -> None:
    """And what must go on goes on: cancels, balances, probes."""
    open_ = dict.fromkeys(("create", "open", "grab", "cancel", "view", "balance", "health"), "ok")
    assert await codes(door) == open_
    for name, kind in (("creates", "create"), ("grabs", "grab"), ("opens:set-1", "open")):
        await close(door, name)
        assert await codes(door) == {**open_, kind: "degraded"}
    await close(door)
    assert await codes(door) == open_


async def test_a_switch_for_one_database_leaves_the_others(door: Door) -> None:
    """Envelopes of slot 7 are in db_00."""
    await close(door, "opens:db_01", "grabs:db_00")
    found = await codes(door)
    assert (found["open"], found["grab"]) == ("ok", "degraded")


async def test_lists_are_closed_and_the_balance_is_not(door: Door) -> None:
    """Lists read much, a balance one row."""
    await close(door, "lists")
    for path in ("/v1/me/wallet/entries", "/v1/me/envelopes?role=sent", "/v1/me/totals?year=2026"):
        assert (await door.call("GET", path, "bob"))[2]["code"] == "degraded"
    assert (await codes(door))["balance"] == "ok"


async def test_views_are_left_to_the_setnodes(door: Door) -> None:
    """They know which envelopes are in memory."""
    await close(door, "views")
    assert (await codes(door))["view"] == "ok"
