import pytest

from loadtest.tally import Tally
from loadtest.users.known_answers import KnownAnswers


@pytest.fixture
def tally():
    return Tally()


@pytest.fixture
def known(tally):
    return KnownAnswers(tally)


def opened(known, result="opened", fen: object = 7, *, ask=True, call="open"):
    if ask and call == "open":
        known.sent("1", "a")
    known.received(call, "1", "a", result, fen)


def test_a_repeat_with_the_same_amount_is_right(known, tally):
    """opened, then already_opened by open and by grab with the same amount: no failure, and one win."""
    opened(known)
    opened(known, "already_opened")
    opened(known, "already_opened", call="grab")
    assert tally.failures == {}
    assert tally.won == [("1", "a", 7)]
    assert known.amount_fen("1", "a") == 7


@pytest.mark.parametrize("order", [("opened", "already_opened"), ("already_opened", "opened")])
def test_a_double_click_may_hear_its_answers_in_any_order(known, tally, order):
    """Two opens at once: their answers may overtake each other on the way."""
    known.sent("1", "a")
    known.sent("1", "a")
    for result in order:
        opened(known, result, ask=False)
    assert tally.failures == {}
    assert tally.won == [("1", "a", 7)]


def test_an_open_without_an_answer_may_have_won(known, tally):
    """After an unknown outcome the first answer may be already_opened; it counts as won."""
    known.sent("1", "a")
    opened(known, "already_opened")
    assert tally.failures == {}
    assert tally.won == [("1", "a", 7)]


@pytest.mark.parametrize(
    ("result", "fen", "call", "said"),
    [
        ("already_opened", 8, "open", "another amount"),
        ("already_opened", 8, "grab", "another amount"),
        ("opened", 7, "open", "opened again"),
        ("sold_out", None, "open", "had won"),
        ("openable", None, "grab", "had won"),
        ("already_opened", None, "open", "amount of None"),
        ("already_opened", 0, "open", "amount of 0"),
    ],
)
def test_a_contradiction_is_a_failure(known, tally, result, fen, call, said):
    """Whoever has won hears of the same share for ever; anything else is told."""
    opened(known)
    opened(known, result, fen, call=call)
    (sentence,) = tally.failures
    assert said in sentence


def test_a_share_from_nowhere_is_a_failure(known, tally):
    """Nobody holds a share that he has not asked for."""
    opened(known, "already_opened")
    opened(known, "already_opened", call="grab")
    assert len(tally.failures) == 1
