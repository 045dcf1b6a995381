"""What grab and open answer: the reply of a SET as JSON. The common ones are joined from bytes, not encoded."""

from typing import Any, Final

from envelope.errors import Refused, Unavailable
from envelope.outcomes import Outcome
from gateway.http.answer import Answer, encode_json
from gateway.problems import STATUS_OF
from gateway.reading.instants import write_instant

_OUTCOMES: Final = tuple(Outcome)
"""On the wire an outcome is its index here."""
_BARE: Final = tuple(b'{"result":"%b"}' % outcome.value.encode() for outcome in _OUTCOMES)
_HELD: Final = tuple(
    b'{"result":"%b","amount_fen":%%d,"seq":%%d,"last":%%b}' % outcome.value.encode() for outcome in _OUTCOMES
)
_PROBLEMS: Final = frozenset(index for index, outcome in enumerate(_OUTCOMES) if STATUS_OF[outcome] != 200)  # noqa: PLR2004


def outcome_answer(values: list[Any]) -> Answer:
    """Turn `[outcome index, amount_fen, seq, last, extra|None]` into an answer.

    Amount, seq and last only where the user holds a share. Raises what `not_found` and `busy` are over HTTP.
    """
    index, amount_fen, seq, last, extra = values
    if index in _PROBLEMS:
        raise _problem(_OUTCOMES[index])
    if extra:
        return Answer(200, encode_json(_flat(_OUTCOMES[index], values)))
    if seq < 0:
        return Answer(200, _BARE[index])
    return Answer(200, _HELD[index] % (amount_fen, seq, b"true" if last else b"false"))


def _flat(outcome: Outcome, values: list[Any]) -> dict[str, Any]:
    _, amount_fen, seq, last, extra = values
    flat: dict[str, Any] = {"result": outcome.value}
    if seq >= 0:
        flat |= {"amount_fen": amount_fen, "seq": seq, "last": bool(last)}
    for name, value in extra.items():
        if name == "opens_at_ms":
            flat["opens_at"] = write_instant(value)
        else:
            flat[name] = value
    return flat


def _problem(outcome: Outcome) -> Exception:
    if outcome is Outcome.NOT_FOUND:
        return Refused("not_found", "there is no such envelope")
    return Unavailable("busy", "this envelope is very busy; try again")
