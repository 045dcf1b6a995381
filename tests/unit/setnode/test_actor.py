"""The actor on a harness that a test directs: no event loop, no database, every schedule from a seed."""

import random
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from envelope.claim_log import ClaimLog
from envelope.decide import Answer
from envelope.outcomes import Entry, Outcome
from errors import HongbaoError, InvariantBroken, Unavailable
from setnode.actors import actor as actor_module
from setnode.actors import showing
from setnode.actors.actor import Actor
from setnode.actors.batch import ClaimBatch
from setnode.actors.context import FOREIGN
from setnode.actors.phase import Phase
from setnode.actors.request import OUTCOMES, Action, LocalCaller, Request
from setnode.limits import FROZEN_S, HOT_AT
from tests.unit.envelope.test_claim_log import entries_of
from tests.unit.envelope.test_ladder import EXPIRES, OPENS, terms

Row = tuple[int, str, str, int, int]


class Harness:
    """Stands in for committer, loader and database; `rows` is what Postgres holds."""

    def __init__(self, **changed) -> None:
        self.terms = terms(**changed)
        self.rows: list[Row] = []
        self.tries: dict[str, int] = {}
        self.tally = [0] * len(Outcome)
        self.waiting = 0
        self.now = OPENS
        self.time = 0.0
        self.ready: list[Actor] = []
        self.loading: list[Actor] = []
        self.shouts: list[InvariantBroken] = []
        self.replies: list[tuple[int, object]] = []
        self.numbers = 0
        self.generation = 0
        self.postgres_life = 0
        self.weight = self.terms.count
        self.actor = Actor(self.terms.envelope_id, self, ClaimLog(self.terms))

    def now_ms(self) -> int:
        return self.now

    def loop_time(self) -> float:
        return self.time

    def enqueue_commit(self, actor) -> None:
        assert actor.phase is Phase.READY
        self.ready.append(actor)

    def note_hot(self, actor) -> None:
        assert actor.phase is Phase.READY
        assert actor.waiting >= HOT_AT

    def enqueue_load(self, actor) -> None:
        assert actor.phase is Phase.LOADING
        self.loading.append(actor)

    def generation_of(self, envelope_id) -> int:
        return self.generation

    def set_weight(self, actor, shares) -> None:
        assert shares in (self.terms.count, 2 * self.terms.count)
        self.weight = shares

    def report_broken(self, actor, error) -> None:
        self.shouts.append(error)

    def forget(self, actor) -> None:
        """Nothing to forget."""

    def ask(self, user: str, ask: Action = Action.OPEN, password: str | None = None) -> int:
        self.numbers += 1
        caller = LocalCaller(lambda number, *values: self.replies.append((number, values)))
        self.actor.offer(
            Request(
                ask,
                user,
                token_ok=True,
                password_mac=password,
                caller=caller,
                number=self.numbers,
                arrived_at=self.time,
            )
        )
        return self.numbers

    def collect(self, limit: int = 1_000, stale: float = -1.0) -> ClaimBatch:
        """What the claim queue does with one actor."""
        batch = ClaimBatch(self.now)
        self.ready.pop().collect(batch, limit, stale)
        return batch

    def write(self, batch: ClaimBatch) -> bool:
        """What Postgres does: all of it, or nothing where a seq, a user or another count of tries stands already."""
        first: dict[str, int] = {}
        for _, user, count in batch.tries:
            first.setdefault(user, count)
        if any(self.tries.get(user, 0) != count - 1 for user, count in first.items()):
            return False
        new = [(seq, kind, user, fen, batch.at_ms) for _, seq, _, kind, user, fen in batch.claims]
        seqs, users = {row[0] for row in self.rows}, {row[2] for row in self.rows}
        if any(row[0] in seqs or row[2] in users for row in new):
            return False
        self.rows += new
        self.tries.update({user: count for _, user, count in batch.tries})
        return True

    def settle(self) -> None:
        """Whatever is still waiting is collected, if anything is."""
        if self.ready:
            self.collect()

    def load(self) -> None:
        log = ClaimLog(self.terms)
        log.restore(self.rows)
        log.restore_wrong_tries(self.tries)
        self.loading.pop().loaded(log, self.time)

    def heard(self, number: int) -> object:
        (values,) = [values for told, values in self.replies if told == number]
        if isinstance(values[0], HongbaoError):
            return values[0].code
        if isinstance(values[0], bytes):
            return msgspec.json.decode(values[0])
        return OUTCOMES[values[0]].value if isinstance(values[0], int) else values[0]


@pytest.fixture
def harness() -> Iterator[Harness]:
    """At the end of every test the requests that wait have been counted right."""
    harness = Harness()
    yield harness
    assert harness.waiting == harness.actor.waiting


def test_an_open_is_answered_after_its_commit_and_not_before(harness):
    """READY asks for a commit, WRITING is silent, settle answers."""
    number = harness.ask("a")
    assert (harness.actor.phase, harness.replies) == (Phase.READY, [])
    batch = harness.collect()
    assert (harness.actor.phase, harness.replies, batch.actors) == (Phase.WRITING, [], [harness.actor])
    harness.actor.settle()
    assert (harness.actor.phase, harness.heard(number)) == (Phase.IDLE, "opened")
    assert harness.tally[Outcome.OPENED.code] == 1


def test_what_needs_no_write_is_answered_at_once_only_when_nobody_waits_before_it(harness):
    """A grab overtakes no open that arrived before it."""
    first = harness.ask("x", Action.GRAB)
    assert harness.heard(first) == "openable"
    harness.ask("a")
    harness.ask("x", Action.GRAB)
    assert len(harness.replies) == 1
    harness.collect()
    harness.ask("y", Action.GRAB)
    harness.actor.settle()
    assert [number for number, _ in harness.replies] == [1, 2, 3]
    harness.collect()
    assert [number for number, _ in harness.replies] == [1, 2, 3, 4]


def test_a_round_without_a_write_is_answered_without_a_transaction(harness):
    """Nothing joins the batch when nobody can win."""
    harness.ask("a")
    harness.ask("a")
    harness.write(harness.collect(limit=1))
    harness.actor.settle()
    batch = harness.collect()
    assert (len(batch), batch.actors, harness.heard(2), harness.actor.phase) == (0, [], "already_opened", Phase.IDLE)


def test_a_double_click_in_doubt_hears_opened_once(harness):
    """The commit went in and its answer was lost: the request that won says opened, its twin already_opened."""
    numbers = [harness.ask("a"), harness.ask("a"), harness.ask("b")]
    harness.write(harness.collect())
    harness.actor.reload(in_doubt=True)
    harness.load()
    harness.settle()
    assert [harness.heard(number) for number in numbers] == ["opened", "already_opened", "opened"]
    assert [number for number, _ in harness.replies] == numbers


def test_a_lost_commit_that_never_went_in_is_decided_anew(harness):
    """The same request wins by another transaction, once."""
    number = harness.ask("a")
    harness.collect()
    harness.actor.reload(in_doubt=True)
    harness.load()
    assert harness.write(harness.collect())
    harness.actor.settle()
    assert harness.heard(number) == "opened"
    assert [row[2] for row in harness.rows] == ["a"]


@pytest.mark.parametrize("went_in", [True, False])
def test_in_doubt_a_refusal_is_the_truth_or_unknown_never_busy(harness, went_in):
    """Without a lease after a lost commit: opened where the log shows it, outcome_unknown where it does not."""
    number = harness.ask("a")
    batch = harness.collect()
    other = harness.ask("c")
    if went_in:
        harness.write(batch)
    harness.actor.reload(in_doubt=True)
    harness.load()
    harness.actor.reject_waiting(Unavailable("busy", "no lease"))
    assert harness.heard(number) == ("opened" if went_in else "outcome_unknown")
    assert harness.heard(other) == "busy"


def test_while_the_log_cannot_be_read_a_lost_claim_is_unknown(harness):
    """The loader's refusal says database_unavailable to those whose claim was never sent alone."""
    lost = harness.ask("a")
    harness.collect()
    harness.actor.reload(in_doubt=True)
    late = harness.ask("b")
    harness.actor.reject_waiting(Unavailable("database_unavailable", "away"))
    assert (harness.heard(lost), harness.heard(late)) == ("outcome_unknown", "database_unavailable")
    ((_, (error,)), _) = harness.replies
    assert not error.outcome_known


def test_an_hour_that_passed_while_in_doubt_proves_nothing(harness):
    """The lost transaction may still arrive: expired by the clock alone is outcome_unknown, by an entry expired."""
    number = harness.ask("a")
    harness.collect()
    harness.actor.reload(in_doubt=True)
    harness.now = EXPIRES
    harness.load()
    harness.settle()
    assert harness.heard(number) == "outcome_unknown"


def test_in_doubt_a_share_won_elsewhere_is_already_opened(harness):
    """The claim stands at another seq than the lost one: another server answered it `opened`."""
    number = harness.ask("a")
    harness.collect()
    amounts = ClaimLog(harness.terms).amounts
    harness.rows = [(0, "open", "z", amounts[0], OPENS), (1, "open", "a", amounts[1], OPENS)]
    harness.actor.reload(in_doubt=True)
    harness.load()
    harness.settle()
    assert harness.heard(number) == "already_opened"


def test_a_conflict_reloads_and_keeps_the_order(harness):
    """A rival's claims come first, those decided and those waiting follow in order of arrival."""
    numbers = [harness.ask("a"), harness.ask("b")]
    batch = harness.collect()
    numbers += [harness.ask("c"), harness.ask("d")]
    harness.rows = [(0, "open", "rival", ClaimLog(harness.terms).amounts[0], OPENS)]
    assert not harness.write(batch)
    harness.actor.reload(in_doubt=False)
    assert harness.replies == []
    harness.load()
    assert harness.write(harness.collect())
    harness.actor.settle()
    assert [number for number, _ in harness.replies] == numbers
    assert [harness.heard(number) for number in numbers] == ["opened", "opened", "sold_out", "sold_out"]


def test_a_refusal_still_tells_the_truth_where_it_needs_no_write(harness):
    """Without a lease who would win hears busy, who already won hears so, and the actor rests."""
    harness.ask("a")
    harness.write(harness.collect())
    harness.actor.settle()
    wins, held = harness.ask("b"), harness.ask("a")
    harness.actor.reject_waiting(Unavailable("busy", "no lease"))
    assert (harness.heard(wins), harness.heard(held)) == ("busy", "already_opened")
    assert (harness.actor.phase, harness.actor.waiting) == (Phase.IDLE, 0)


def test_stale_requests_hear_busy_and_write_nothing(harness):
    """Who waited longer than his caller waits cannot win any more; who came later can."""
    old = harness.ask("a")
    harness.time = 10.0
    new = harness.ask("b")
    batch = harness.collect(stale=5.0)
    harness.actor.settle()
    assert (harness.heard(old), harness.heard(new), [claim[4] for claim in batch.claims]) == ("busy", "opened", ["b"])


def test_the_mailbox_is_bounded(harness, monkeypatch):
    """Above MAILBOX a request hears busy at once, the others keep their place."""
    monkeypatch.setattr(actor_module, "MAILBOX", 3)
    numbers = [harness.ask(f"u{n}") for n in range(5)]
    assert [number for number, _ in harness.replies] == numbers[3:]
    assert harness.heard(5) == "busy"
    assert harness.actor.waiting == 3


def test_a_broken_log_freezes_and_thaws_when_it_is_mended(harness):
    """Everybody hears frozen, nothing of it is written, the log is read again at most every FROZEN_S."""
    number = harness.ask("sender", Action.EXPIRE)
    harness.actor.freeze(InvariantBroken("test", "not what it should be"))
    assert (harness.actor.phase, len(harness.shouts), harness.actor.log) == (Phase.FROZEN, 1, None)
    assert harness.heard(number) == "invariant_broken"
    assert harness.heard(harness.ask("a")) == "invariant_broken"
    assert harness.loading == []
    harness.time += FROZEN_S
    later = harness.ask("a")
    harness.ready.clear()
    harness.load()
    harness.write(harness.collect())
    harness.actor.settle()
    assert harness.heard(later) == "opened"


def test_an_invariant_that_breaks_while_deciding_cuts_its_rows_from_the_batch(harness):
    """Of a broken log nothing is written, what others put into the batch before stays, and the actor is frozen."""
    other = Harness()
    other.ask("x")
    batch = ClaimBatch(OPENS)
    other.ready.pop().collect(batch, 10, -1.0)
    harness.ask("a")
    harness.ask("b")

    class Breaks(dict):
        def get(self, key, default=None):
            if key == "b":
                raise InvariantBroken("test", "broken by hand")
            return super().get(key, default)

    harness.actor.log = ClaimLog(harness.terms)
    harness.actor.log.winners = Breaks()
    harness.ready.pop().collect(batch, 10, -1.0)
    assert [claim[4] for claim in batch.claims] == ["x"]
    assert batch.actors == [other.actor]
    assert harness.actor.phase is Phase.FROZEN
    assert [harness.heard(number) for number in (1, 2)] == ["invariant_broken"] * 2


def test_cut_back_drops_every_column():
    """What was added after the mark is gone from all of it alike."""
    batch = ClaimBatch(OPENS)
    log = ClaimLog(terms())
    batch.add_open(log, "a", Answer(Outcome.OPENED, log.amounts[log.append("a", OPENS)], 0))
    log.restore_wrong_tries({"b": 1})
    batch.add_wrong_try(log, "b")
    batch.add_closing(log, log.close(Entry.CANCELED, OPENS))
    assert len(batch) == 3
    batch.cut_back((1, 0))
    columns = [batch.claims, batch.receivers]
    assert [len(column) for column in columns] == [1, 1]
    assert batch.tries == []


def test_a_closing_refunds_the_sender_and_a_cancel_repeats_its_answer(harness):
    """The receiver of a closing entry is the sender; a second cancel shows the same detail without a write."""
    number = harness.ask("sender", Action.CANCEL)
    batch = harness.collect()
    assert [claim[3:] for claim in batch.claims] == [("canceled", "", 100)]
    assert batch.receivers == ["sender"]
    harness.write(batch)
    harness.actor.settle()
    again = harness.ask("sender", Action.CANCEL)
    assert len(harness.collect()) == 0
    assert harness.heard(number) == harness.heard(again)


@pytest.mark.parametrize("first", [Action.CANCEL, Action.EXPIRE])
@pytest.mark.parametrize("reloads", [False, True])
def test_a_cancel_after_expiry_gives_one_answer_for_ever(harness, first, reloads):
    """Whoever closes it first, sender or clock: every cancel shows the one closing, never an error."""
    harness.now = EXPIRES
    harness.ask("a" if first is Action.EXPIRE else "sender", first)
    batch = harness.collect()
    assert [claim[3:] for claim in batch.claims] == [("expired", "", 100)]
    harness.write(batch)
    harness.actor.settle()
    cancels = [1] if first is Action.CANCEL else []
    for _ in range(3):
        if reloads:
            harness.actor.reload(in_doubt=False)
            harness.load()
        cancels.append(harness.ask("sender", Action.CANCEL))
        harness.now += 1_000
        assert len(harness.collect()) == 0
    told = [harness.heard(number) for number in cancels]
    assert all(one == told[0] for one in told)
    assert (told[0]["status"], told[0]["refund_fen"]) == ("expired", 100)


def test_a_cancel_before_and_after_the_hour_shows_the_cancel(harness):
    """Canceled in time it stays canceled, whatever the clock says at the repeat and whoever tries to expire it."""
    number = harness.ask("sender", Action.CANCEL)
    harness.write(harness.collect())
    harness.actor.settle()
    harness.now = EXPIRES
    harness.ask("", Action.EXPIRE)
    assert len(harness.collect()) == 0
    again = harness.ask("sender", Action.CANCEL)
    assert len(harness.collect()) == 0
    assert harness.heard(again) == harness.heard(number)
    assert harness.heard(again)["status"] == "canceled"


def test_a_sold_out_envelope_has_nothing_to_cancel(harness):
    """Before and after its hour alike: already_final."""
    for user in ("a", "b", "c"):
        harness.ask(user)
    harness.write(harness.collect())
    harness.actor.settle()
    before = harness.ask("sender", Action.CANCEL)
    harness.collect()
    harness.now = EXPIRES
    after = harness.ask("sender", Action.CANCEL)
    harness.collect()
    assert (harness.heard(before), harness.heard(after)) == ("already_final", "already_final")


@pytest.fixture
def secret() -> Harness:
    """An envelope with a password."""
    return Harness(password_mac="right")


def tries_left(harness: Harness, number: int) -> int:
    (values,) = [values for told, values in harness.replies if told == number]
    assert OUTCOMES[values[0]] is Outcome.WRONG_PASSWORD
    return values[4]["tries_left"]


@pytest.mark.parametrize("went_in", [True, False])
def test_a_lost_commit_counts_a_wrong_try_once(secret, went_in):
    """Two typing errors whose commit was lost cost two tries, whether it went in or not, and hear what is left."""
    numbers = [secret.ask("a", password="wrong") for _ in range(2)]
    batch = secret.collect()
    if went_in:
        secret.write(batch)
    secret.actor.reload(in_doubt=True)
    secret.load()
    again = secret.collect()
    assert len(again) == (0 if went_in else 2)
    if not went_in:
        assert secret.write(again)
        secret.actor.settle()
    assert secret.tries == {"a": 2}
    assert [tries_left(secret, number) for number in numbers] == ([3, 3] if went_in else [4, 3])


def test_a_lost_commit_that_arrives_late_is_met_at_its_number(secret):
    """Judged anew while the lost transaction was still on its way: the two conflict, and the try counts once."""
    number = secret.ask("a", password="wrong")
    late = secret.collect()
    secret.actor.reload(in_doubt=True)
    secret.load()
    again = secret.collect()
    assert secret.write(late)
    assert not secret.write(again)
    secret.actor.reload(in_doubt=False)
    secret.load()
    assert len(secret.collect()) == 0
    assert (tries_left(secret, number), secret.tries) == (4, {"a": 1})


def test_a_conflict_counts_a_wrong_try_once_beside_the_rivals(secret):
    """Another server counted the same user meanwhile: this try comes after it, not instead of it and not twice."""
    number = secret.ask("a", password="wrong")
    batch = secret.collect()
    secret.tries = {"a": 1}
    assert not secret.write(batch)
    secret.actor.reload(in_doubt=False)
    secret.load()
    assert secret.write(secret.collect())
    secret.actor.settle()
    assert (tries_left(secret, number), secret.tries) == (3, {"a": 2})


@pytest.mark.parametrize("heard", ["before the loss", "while reading"])
def test_a_try_in_doubt_is_never_settled_by_a_rivals_count(secret, heard):
    """The commit never went in and another server counted: its number proves nothing, the sixth password is refused."""
    secret.tries = {"a": 3}
    secret.actor.log.restore_wrong_tries({"a": 3})
    numbers = [secret.ask("a", password="wrong"), secret.ask("a", password="right")]
    secret.collect(limit=1)
    if heard == "before the loss":
        secret.actor.generation = FOREIGN
    secret.actor.reload(in_doubt=True)
    secret.tries = {"a": 4}
    if heard == "while reading":
        secret.actor.generation = FOREIGN
    secret.load()
    assert secret.write(secret.collect())
    secret.actor.settle()
    secret.settle()
    assert [tries_left(secret, number) for number in numbers] == [0, 0]
    assert secret.tries == {"a": 5}


def test_in_doubt_a_wrong_try_without_an_entry_is_unknown(secret):
    """It may have been counted: nobody says `busy, nothing happened` to it."""
    lost = secret.ask("a", password="wrong")
    secret.collect()
    fresh = secret.ask("b", password="wrong")
    secret.actor.reload(in_doubt=True)
    secret.load()
    secret.actor.reject_waiting(Unavailable("busy", "no lease"))
    assert (secret.heard(lost), secret.heard(fresh)) == ("outcome_unknown", "busy")


@pytest.mark.parametrize(("password", "reads"), [("right", True), ("wrong", True), (None, False)])
def test_where_another_server_may_have_counted_a_password_waits_for_the_truth(secret, password, reads):
    """Five wrong tries elsewhere: the right password is refused; an open without one reads nothing."""
    secret.tries = {"a": 5}
    secret.actor.generation = FOREIGN
    number = secret.ask("a", password=password)
    assert bool(secret.loading) == reads
    if reads:
        secret.load()
        assert not secret.ready
        assert tries_left(secret, number) == 0


def test_whoever_came_during_a_commit_waits_for_the_truth_too(secret):
    """The notification arrives while a batch is written: those who wait are decided from a log read after it."""
    secret.ask("b", password="wrong")
    batch = secret.collect()
    number = secret.ask("a", password="right")
    secret.write(batch)
    secret.tries["a"] = 5
    secret.actor.generation = FOREIGN
    secret.actor.settle()
    assert secret.actor.phase is Phase.LOADING
    secret.load()
    secret.settle()
    assert tries_left(secret, number) == 0


@pytest.mark.parametrize("seed", range(120))
def test_any_schedule_answers_in_order_and_never_lies(seed):  # noqa: C901, PLR0912 - a schedule is a list of steps
    """Random arrivals, commits, lost answers, rivals and refusals: FIFO, one batch in flight, opened means a row."""
    chance = random.Random(seed)
    harness = Harness(total_fen=1_000, count=12)
    users = [f"u{n}" for n in range(16)]
    asked: dict[int, str] = {}
    in_flight: ClaimBatch | None = None
    for _ in range(400):
        step = chance.choice(("ask", "ask", "collect", "commit", "lose", "load", "rival", "refuse"))
        if step == "ask":
            user = chance.choice(users)
            asked[harness.ask(user, chance.choice((Action.OPEN, Action.OPEN, Action.GRAB)))] = user
        elif step == "collect" and harness.ready:
            assert in_flight is None, "two batches in flight"
            batch = harness.collect(limit=chance.randint(1, 6))
            in_flight = batch if len(batch) else None
        elif step == "commit" and in_flight is not None:
            batch, in_flight = in_flight, None
            if harness.write(batch):
                harness.actor.settle()
            else:
                harness.actor.reload(in_doubt=False)
        elif step == "lose" and in_flight is not None:
            batch, in_flight = in_flight, None
            if chance.random() < 0.5:
                harness.write(batch)
            harness.actor.reload(in_doubt=True)
        elif step == "load" and harness.loading:
            harness.load()
        elif step == "rival" and len(harness.rows) < 12 and in_flight is not None:
            rival = f"r{len(harness.rows)}"
            seq = len(harness.rows)
            harness.rows.append((seq, "open", rival, ClaimLog(harness.terms).amounts[seq], OPENS))
        elif step == "refuse" and harness.ready:
            harness.ready.pop().reject_waiting(Unavailable("busy", "no lease"))
        assert harness.waiting == harness.actor.waiting, seed
    order = [number for number, _ in harness.replies]
    assert order == sorted(order), seed
    rows = {row[2]: row for row in harness.rows}
    heard = {number: harness.heard(number) for number in order}
    opened = Counter(asked[number] for number, what in heard.items() if what == "opened")
    assert all(times == 1 for times in opened.values()), (seed, opened)
    for number, values in harness.replies:
        if heard[number] in ("opened", "already_opened"):
            assert values[1:3] == (rows[asked[number]][3], rows[asked[number]][0]), seed
    final = ClaimLog(harness.terms)
    final.restore(harness.rows)
    assert entries_of(final) == harness.rows


def test_an_exception_that_nobody_expected_freezes_its_envelope_alone(harness, monkeypatch):
    """Deciding fails: what others put into the batch stays, and this envelope refuses until it is read again."""
    other = Harness()
    other.ask("x")
    batch = ClaimBatch(OPENS)
    other.ready.pop().collect(batch, 10, -1.0)
    number = harness.ask("a")
    with monkeypatch.context() as patch:
        patch.setattr(actor_module, "decide", lambda *_: 1 // 0)
        harness.ready.pop().collect(batch, 10, -1.0)
    assert (batch.actors, len(batch.claims)) == ([other.actor], 1)
    assert harness.actor.phase is Phase.FROZEN
    assert harness.heard(number) == "invariant_broken"
    assert [one.check for one in harness.shouts] == ["envelope_decides"]


def test_an_envelope_that_cannot_be_settled_freezes_and_tells_no_lie(harness):
    """A reply fails after the commit: who was not told hears that it is unknown, since it is durable."""
    numbers = [harness.ask(user) for user in ("a", "b", "c")]
    harness.write(harness.collect())
    harness.actor.decided[1].caller = None
    told = harness.actor.decided
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Request, "fail", lambda self, error: harness.replies.append((self.number, (error,))))
        harness.actor.settle()
    assert harness.actor.phase is Phase.FROZEN
    assert [harness.heard(number) for number in numbers] == ["opened", "outcome_unknown", "outcome_unknown"]
    assert len(told) == 3


def test_an_envelope_that_cannot_be_shown_is_still_opened(harness, monkeypatch):
    """A detail that cannot be made fails alone; opens before and after it are decided and settled."""
    monkeypatch.setattr(showing, "detail_view", lambda *_: 1 // 0)
    numbers = [harness.ask("a"), harness.ask("sender", Action.DETAIL), harness.ask("b")]
    harness.write(harness.collect())
    harness.actor.settle()
    (error,) = next(values for number, values in harness.replies if number == numbers[1])
    assert isinstance(error, ZeroDivisionError)
    assert [harness.heard(number) for number in numbers[::2]] == ["opened", "opened"]
    assert harness.actor.phase is Phase.IDLE


@pytest.mark.parametrize("ask", [Action.DETAIL, Action.GRAB, Action.CANCEL])
def test_who_waits_while_another_server_writes_is_answered_from_a_log_read_after(harness, ask):
    """The notification comes while requests wait: opens before it are decided, what is shown is read again first."""
    harness.time = 1.0
    first, shown = harness.ask("a"), harness.ask("sender", ask)
    harness.actor.generation = FOREIGN
    harness.time = 2.0
    batch = harness.collect()
    assert [claim[4] for claim in batch.claims] == ["a"]
    harness.write(batch)
    harness.rows.append((1, "open", "elsewhere", ClaimLog(harness.terms).amounts[1], OPENS))
    harness.actor.settle()
    assert harness.heard(first) == "opened"
    harness.collect()
    assert harness.actor.phase is Phase.LOADING
    harness.load()
    if harness.ready:
        harness.write(harness.collect())
        harness.actor.settle()
    told = harness.heard(shown)
    assert told["claimed_count"] == 2 if isinstance(told, dict) else told


def test_a_lost_claim_of_an_envelope_that_is_nowhere_is_unknown(harness):
    """No header is found after a lost commit: who may have been written hears that, the others `not_found`."""
    lost = harness.ask("a")
    harness.collect()
    harness.actor.reload(in_doubt=True)
    fresh = harness.ask("b")
    harness.actor.reply_not_found()
    assert (harness.heard(lost), harness.heard(fresh)) == ("outcome_unknown", "not_found")


def test_what_is_asked_while_the_log_is_read_is_not_answered_from_it(secret):
    """Another server counted the fifth password after the query: the sixth, asked after we heard of it, is refused."""
    secret.tries = {"eve": 4}
    secret.actor.generation = FOREIGN
    secret.time = 1.0
    secret.ask("bob", Action.DETAIL)
    stale = ClaimLog(secret.terms)
    stale.restore_wrong_tries(secret.tries)
    secret.tries["eve"] = 5
    secret.actor.generation = FOREIGN  # its notification has come
    secret.time = 2.0
    number = secret.ask("eve", password="right")
    secret.loading.pop().loaded(stale, 1.0)
    while secret.ready:
        secret.collect()
    secret.load()
    secret.settle()
    assert tries_left(secret, number) == 0
    assert not secret.rows


def test_who_has_won_elsewhere_while_the_log_is_read_is_not_told_to_open(harness):
    harness.actor.generation = FOREIGN
    harness.time = 1.0
    harness.ask("x", Action.GRAB)
    stale, full = ClaimLog(harness.terms), ClaimLog(harness.terms)
    harness.rows.append((0, "open", "bob", full.amounts[0], OPENS))
    harness.actor.generation = FOREIGN
    harness.time = 2.0
    number = harness.ask("bob", Action.GRAB)
    harness.loading.pop().loaded(stale, 1.0)
    while harness.ready:
        harness.collect()
    harness.load()
    harness.settle()
    assert OUTCOMES[dict(harness.replies)[number][0]] is Outcome.ALREADY_OPENED


def test_a_log_that_is_ahead_of_another_postgres_leaves_no_gap(harness):
    """A standby that lacked the last commits took over: what it has is read before anything is decided or told."""
    for user in "abc":
        harness.ask(user)
        assert harness.write(harness.collect())
        harness.actor.settle()
    del harness.rows[1:]  # b and c are lost with the primary's disk
    harness.postgres_life += 1
    numbers = [harness.ask(user) for user in "cd"]
    while harness.loading or harness.ready:
        if harness.loading:
            harness.load()
        else:
            batch = harness.collect()
            if len(batch):
                assert harness.write(batch)
                harness.actor.settle()
    assert [(row[0], row[2]) for row in harness.rows] == [(0, "a"), (1, "c"), (2, "d")]
    assert [OUTCOMES[dict(harness.replies)[number][0]] for number in numbers] == [Outcome.OPENED] * 2


def test_what_waits_when_another_postgres_answers_is_decided_from_what_it_has(harness):
    """Also a request that was in the mailbox, and one whose log was being read."""
    harness.ask("a")
    assert harness.write(harness.collect())
    harness.actor.settle()
    harness.ask("b")
    del harness.rows[:]
    harness.postgres_life += 1
    assert len(harness.collect()) == 0
    harness.postgres_life += 1
    harness.load()
    assert len(harness.collect()) == 0
    harness.load()
    assert harness.write(harness.collect())
    harness.actor.settle()
    assert [(row[0], row[2]) for row in harness.rows] == [(0, "b")]
