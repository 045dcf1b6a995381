"""What each user was told of each envelope: an answer once given never changes.

A user who hangs up, or is told "outcome unknown", may hold a share without knowing: such an open stays `unsure` and
allows one `already_opened` that was not expected.
"""

from typing import Any, Final

from loadtest.tally import Tally

WON: Final = ("opened", "already_opened")

Key = tuple[str, str]
"""Envelope, user."""


class Memory:
    """Hears every answer to grab and open; contradictions go into the tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._amounts: dict[Key, int] = {}
        self._opened: set[Key] = set()
        self._unsure: dict[Key, int] = {}

    def amount_fen(self, envelope: str, user: str) -> int | None:
        """Return what the user was told to have won; None when nothing."""
        return self._amounts.get((envelope, user))

    def asked(self, envelope: str, user: str) -> None:
        """Note that an open leaves; `opened` or `unanswered` follows, or, if the user is cut off, nothing."""
        self._unsure[envelope, user] = self._unsure.get((envelope, user), 0) + 1

    def heard(self, call: str, envelope: str, user: str, answer: dict[str, Any]) -> None:
        """Compare the answer to a grab or an open with what this user heard before."""
        key = envelope, user
        result, fen = answer.get("result"), answer.get("amount_fen")
        others = self._unsure.get(key, 0)
        if call == "open":
            # Another click of his may be under way: only then may he hear of a share before he hears `opened`.
            others -= 1
            self._unsure[key] = others
        if result in WON:
            self._won(call, key, str(result), fen, others)
        elif key in self._amounts:
            self._tally.fail(f"{call} said {result} to one who had won a share")

    def _won(self, call: str, key: Key, result: str, fen: Any, others: int) -> None:
        if type(fen) is not int or fen < 1:
            self._tally.fail(f"{call} said {result} with an amount of {fen}")
            return
        if result == "opened":
            if key in self._opened:
                self._tally.fail("a second open of one user said opened again")
            self._opened.add(key)
        elif key not in self._amounts and not others:
            self._tally.fail(f"{call} said already_opened to one who had not opened")
        known = self._amounts.get(key)
        if known is None:
            self._amounts[key] = fen
            self._tally.won.append((*key, fen))
        elif known != fen:
            self._tally.fail(f"a repeated {call} gave another amount than before")
