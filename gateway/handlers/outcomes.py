"""The answer of open and grab: a SET's reply as JSON. The frequent forms are formatted as bytes, without an encoder."""

from http import HTTPStatus
from typing import Any, Final

from envelope.outcomes import Outcome, not_found
from errors import Unavailable
from gateway.http.answer import Answer, encode_json
from gateway.parsing.instants import write_instant
from gateway.problems import STATUS_OF

_OUTCOMES: Final = tuple(Outcome)
"""On the wire an outcome is its index in this tuple."""
NOT_INVITED_DETAIL: Final = (
    "only users named in `to` may open it; where nobody is named, whoever sends its share token "
    "(share_token, or header X-Share-Token)"
)
"""Clients forget the token: without this they heard what a stranger hears, and looked for the fault elsewhere."""


def _bare(outcome: Outcome) -> bytes:
    detail = {"detail": NOT_INVITED_DETAIL} if outcome is Outcome.NOT_INVITED else {}
    return encode_json({"result": outcome.value, **detail})


_BARE: Final = tuple(map(_bare, _OUTCOMES))
_HELD: Final = tuple(
    b'{"result":"%b","amount_fen":%%d,"seq":%%d,"last":%%b}' % outcome.value.encode() for outcome in _OUTCOMES
)
"""Bodies by outcome index: without a share, and with one (a template)."""
_OPENABLE: Final = _OUTCOMES.index(Outcome.OPENABLE)
_PROBLEMS: Final = frozenset(index for index, outcome in enumerate(_OUTCOMES) if STATUS_OF[outcome] != HTTPStatus.OK)


def is_openable(values: list[Any]) -> bool:
    """Say whether the reply to a grab is that a share can be opened."""
    return bool(values[0] == _OPENABLE)


def outcome_answer(values: list[Any]) -> Answer:
    """Turn the reply `[outcome index, amount_fen, seq, last, extra or None]` into an answer.

    Amount, seq and last are sent only if the user has a share (`seq` is not negative). Raises Refused `not_found` and
    Unavailable `busy` for the outcomes that are problems over HTTP.
    """
    index, amount_fen, seq, last, extra, *_ = values
    if index in _PROBLEMS:
        raise _problem(_OUTCOMES[index])
    if extra:
        return Answer(200, encode_json(_flat(_OUTCOMES[index], values)))
    if seq < 0:
        return Answer(200, _BARE[index])
    return Answer(200, _HELD[index] % (amount_fen, seq, b"true" if last else b"false"))


def _flat(outcome: Outcome, values: list[Any]) -> dict[str, Any]:
    _, amount_fen, seq, last, extra, *_ = values
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
        return not_found()
    return Unavailable("busy", "this envelope is very busy; try again")
