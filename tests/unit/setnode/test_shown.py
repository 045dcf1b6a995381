"""A detail's claims: the same rows whether built at once or claim by claim, built once, and only what is committed."""

from datetime import UTC, datetime

import msgspec
import pytest

from envelope.claim_log import ClaimLog
from envelope.errors import InvariantBroken
from envelope.outcomes import Entry
from setnode.actors import shown as shown_module
from setnode.actors.request import Ask
from setnode.actors.shown import KEEP_FROM, Claim, ShownClaims, instant
from setnode.actors.views import detail_view
from tests.unit.envelope.test_ladder import OPENS, terms
from tests.unit.setnode.test_actor import Stage

COUNT = 70_000


def as_read(value):
    return msgspec.json.decode(value if isinstance(value, bytes) else msgspec.json.encode(value))


def opened(log: ClaimLog, number: int) -> None:
    for _ in range(number):
        log.append(f"u{len(log.winners)}", OPENS + 7 * len(log.winners))
    log.committed = len(log.winners)


def stage_with(opens: int) -> Stage:
    stage = Stage(count=500, total_fen=5_000)
    opened(stage.actor.log, opens)
    return stage


@pytest.mark.parametrize("steps", [(15, 1), (16, 1), (1, 1, 1), (100, 0, 900), (65_535, 1, 10), (COUNT,)])
def test_rows_built_in_steps_are_the_rows_built_at_once(steps):
    """However many come at a time, a reader finds every committed claim once, in order, and sum and best luck fit."""
    log = ClaimLog(terms(count=COUNT, total_fen=10 * COUNT))
    shown = ShownClaims(log)
    for step in steps:
        opened(log, step)
        shown.catch_up()
    expected = [
        {"seq": seq, "user": user, "amount_fen": fen, "claimed_at": instant(at_ms)}
        for seq, (user, fen, at_ms) in enumerate(log.claims())
    ]
    assert as_read(shown.rows) == expected
    assert (shown.count, shown.claimed_fen) == (sum(steps), sum(row["amount_fen"] for row in expected))
    assert as_read(shown.best) == max(expected, key=lambda row: row["amount_fen"])


def test_what_is_not_committed_is_not_shown():
    """Decided claims wait for their commit; nothing shown is an empty list."""
    log = ClaimLog(terms())
    log.append("a", OPENS)
    shown = ShownClaims(log)
    shown.catch_up()
    assert (as_read(shown.rows), shown.count, shown.best) == ([], 0, None)
    log.committed = 1
    log.append("b", OPENS)
    shown.catch_up()
    assert [row["user"] for row in as_read(shown.rows)] == ["a"]


def test_a_repeated_detail_builds_no_row_twice(monkeypatch):
    """A hundred details build each claim once; one more claim builds one more row."""
    built = []
    monkeypatch.setattr(shown_module, "Claim", lambda *row: built.append(row) or Claim(*row))
    stage = stage_with(300)
    for _ in range(100):
        stage.ask("sender", Ask.DETAIL)
    assert len(built) == 300
    opened(stage.actor.log, 1)
    detail = stage.heard(stage.ask("u1", Ask.DETAIL))
    assert len(built) == 301
    assert (detail["claimed_count"], len(detail["claims"])) == (301, 301)


def test_kept_rows_are_weighed_and_small_ones_are_not_kept():
    """Few claims leave nothing in memory; many count as much again as the log."""
    stage = stage_with(KEEP_FROM - 1)
    stage.ask("sender", Ask.DETAIL)
    assert (stage.actor.shown, stage.weight) == (None, 500)
    opened(stage.actor.log, 1)
    stage.ask("sender", Ask.DETAIL)
    assert (stage.actor.shown.count, stage.weight) == (KEEP_FROM, 1_000)


def test_another_log_is_shown_anew():
    """Neither a reload nor a freeze leaves rows of the log that was thrown away."""
    stage = stage_with(200)
    stage.ask("sender", Ask.DETAIL)
    stage.actor.reload(in_doubt=False)
    stage.load()
    assert stage.weight == 500
    assert stage.heard(stage.ask("sender", Ask.DETAIL))["claims"] == []
    opened(stage.actor.log, 200)
    stage.ask("sender", Ask.DETAIL)
    stage.actor.freeze(InvariantBroken("test", "by hand"))
    assert stage.actor.shown is None


def test_the_state_is_never_kept():
    """Rows of before stay right when the envelope is closed: status, refund and seed are told as they are now."""
    stage = stage_with(200)
    log = stage.actor.log
    before = stage.heard(stage.ask("sender", Ask.DETAIL))
    log.close(Entry.CANCELED, OPENS + 5_000)
    log.committed += 1
    after = stage.heard(stage.ask("sender", Ask.DETAIL))
    fresh = ShownClaims(log)
    fresh.catch_up()
    assert after == as_read(detail_view(log, "sender", OPENS, fresh))
    assert (before["status"], after["status"], after["claims"]) == ("open", "canceled", before["claims"])
    assert after["refund_fen"] == 5_000 - after["claimed_fen"]


@pytest.mark.parametrize("at_ms", [0, 999, 1_000, OPENS, OPENS + 1, 1_795_000_059_999])
def test_an_instant_is_what_the_library_would_write(at_ms):
    """RFC 3339, UTC, three digits of milliseconds."""
    written = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    assert instant(at_ms) == written.isoformat(timespec="milliseconds").replace("+00:00", "Z")
