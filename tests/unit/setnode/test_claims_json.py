"""A detail's claims: the same rows whether built at once or claim by claim, built once, and only what is committed."""

from datetime import UTC, datetime

import msgspec
import pytest

from envelope.claim_log import ClaimLog
from envelope.outcomes import Entry
from errors import InvariantBroken
from gateway.openapi.schemas import SCHEMAS
from setnode.actors.request import Action
from setnode.limits import CLAIMS_JSON_FROM
from setnode.views import claims_json as claims_json_module
from setnode.views import envelope_json
from setnode.views.claims_json import FIRST_PAGE, ClaimRow, ClaimsJson, ClaimsPage
from setnode.views.envelope_json import detail_view
from setnode.views.timestamps import rfc3339
from tests.unit.envelope.test_ladder import OPENS, terms
from tests.unit.setnode.test_actor import Harness

COUNT = 70_000


def as_read(value):
    return msgspec.json.decode(value if isinstance(value, bytes) else msgspec.json.encode(value))


def all_of(shown: ClaimsJson) -> list[dict]:
    """Read all rows, by pages of the longest kind."""
    rows, first = [], 0
    while first is not None:
        page, first = shown.page(ClaimsPage(first, 1_000))
        rows += as_read(page)
    return rows


def opened(log: ClaimLog, number: int) -> None:
    for _ in range(number):
        log.append(f"u{len(log.winners)}", OPENS + 7 * len(log.winners))
    log.mark_committed()


def stage_with(opens: int) -> Harness:
    harness = Harness(count=500, total_fen=5_000)
    opened(harness.actor.log, opens)
    return harness


@pytest.mark.parametrize("steps", [(15, 1), (16, 1), (1, 1, 1), (100, 0, 900), (65_535, 1, 10), (COUNT,)])
def test_rows_built_in_steps_are_the_rows_built_at_once(steps):
    """However many come at a time, a reader finds every committed claim once, in order, and sum and best luck fit."""
    log = ClaimLog(terms(count=COUNT, total_fen=10 * COUNT))
    shown = ClaimsJson(log)
    for step in steps:
        opened(log, step)
        shown.catch_up()
    expected = [
        {"seq": seq, "user": user, "amount_fen": fen, "claimed_at": rfc3339(at_ms)}
        for seq, (user, fen, at_ms) in enumerate(log.claims())
    ]
    assert all_of(shown) == expected
    assert (shown.count, shown.claimed_fen) == (sum(steps), sum(row["amount_fen"] for row in expected))
    assert as_read(shown.best) == max(expected, key=lambda row: row["amount_fen"])


def test_what_is_not_committed_is_not_shown():
    """Decided claims wait for their commit; nothing shown is an empty list."""
    log = ClaimLog(terms())
    log.append("a", OPENS)
    shown = ClaimsJson(log)
    shown.catch_up()
    assert (all_of(shown), shown.count, shown.best) == ([], 0, None)
    log.mark_committed()
    log.append("b", OPENS)
    shown.catch_up()
    assert [row["user"] for row in all_of(shown)] == ["a"]


def test_a_repeated_detail_builds_no_row_twice(monkeypatch):
    """A hundred details build each claim once; one more claim builds one more row."""
    built = []
    monkeypatch.setattr(claims_json_module, "ClaimRow", lambda *row: built.append(row) or ClaimRow(*row))
    harness = stage_with(300)
    for _ in range(100):
        harness.ask("sender", Action.DETAIL)
    assert len(built) == 300
    opened(harness.actor.log, 1)
    detail = harness.heard(harness.ask("u1", Action.DETAIL))
    assert len(built) == 301
    assert (detail["claimed_count"], len(detail["claims"]), detail["next_cursor"]) == (301, 100, "100")


def test_a_page_begins_and_ends_where_it_was_asked_to():
    """Any part of the claims comes as it stands in the whole, with the seq of the next one, None at the end."""
    log = ClaimLog(terms(count=250, total_fen=2_500))
    opened(log, 250)
    shown = ClaimsJson(log)
    shown.catch_up()
    whole = all_of(shown)
    for first, limit, following in (
        (0, 1, 1),
        (7, 100, 107),
        (150, 100, None),
        (249, 1, None),
        (250, 5, None),
        (900, 5, None),
    ):
        page, found = shown.page(ClaimsPage(first, limit))
        assert as_read(page) == whole[first : first + limit]
        assert found == following


def test_kept_rows_are_weighed_and_small_ones_are_not_kept():
    """Few claims leave nothing in memory; many count as much again as the log."""
    harness = stage_with(CLAIMS_JSON_FROM - 1)
    harness.ask("sender", Action.DETAIL)
    assert (harness.actor.claims_json, harness.weight) == (None, 500)
    opened(harness.actor.log, 1)
    harness.ask("sender", Action.DETAIL)
    assert (harness.actor.claims_json.count, harness.weight) == (CLAIMS_JSON_FROM, 1_000)


def test_another_log_is_shown_anew():
    """Neither a reload nor a freeze leaves rows of the log that was thrown away."""
    harness = stage_with(200)
    harness.ask("sender", Action.DETAIL)
    harness.actor.reload(in_doubt=False)
    harness.load()
    assert harness.weight == 500
    assert harness.heard(harness.ask("sender", Action.DETAIL))["claims"] == []
    opened(harness.actor.log, 200)
    harness.ask("sender", Action.DETAIL)
    harness.actor.freeze(InvariantBroken("test", "by hand"))
    assert harness.actor.claims_json is None


def test_the_state_is_never_kept():
    """Rows of before stay right when the envelope is closed: status, refund and seed are told as they are now."""
    harness = stage_with(200)
    log = harness.actor.log
    before = harness.heard(harness.ask("sender", Action.DETAIL))
    log.close(Entry.CANCELED, OPENS + 5_000)
    log.committed += 1
    after = harness.heard(harness.ask("sender", Action.DETAIL))
    fresh = ClaimsJson(log)
    fresh.catch_up()
    assert after == as_read(detail_view(log, "sender", OPENS, fresh, FIRST_PAGE))
    assert (before["status"], after["status"], after["claims"]) == ("open", "canceled", before["claims"])
    assert after["refund_fen"] == 5_000 - after["claimed_fen"]


@pytest.mark.parametrize("at_ms", [0, 999, 1_000, OPENS, OPENS + 1, 1_795_000_059_999])
def test_an_instant_is_what_the_library_would_write(at_ms):
    """RFC 3339, UTC, three digits of milliseconds."""
    written = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    assert rfc3339(at_ms) == written.isoformat(timespec="milliseconds").replace("+00:00", "Z")


SHOWN_BY_FORMAT = {
    1: """archived best_luck claimed_count claimed_fen claims closed_at count created_at envelope_id expires_at greeting
        kind max_fen min_fen next_cursor opens_at password_required refund_fen sender share_id share_token split
        split_commitment split_seed split_version status to total_fen"""
}


def test_a_view_that_changes_gets_another_format() -> None:
    """Clients keep details by their version: with other members under an old version they would keep the old ones."""
    shown = SHOWN_BY_FORMAT[envelope_json._FORMAT].split()
    assert sorted(SCHEMAS["Detail"]["properties"]) == shown, "raise _FORMAT, and add what it shows"
