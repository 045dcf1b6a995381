"""What each user was answered for each envelope; an answer once given must never change.

A user who hangs up, or receives `outcome_unknown`, may hold a share without knowing it: such an open stays `unsure` and
allows one `already_opened` without an `opened` before it.
"""

from typing import Final

from loadtest.tally import Tally

WON: Final = ("opened", "already_opened")

Key = tuple[str, str]
"""Envelope, user."""


class KnownAnswers:
    """Takes every answer to grab and open; contradictions go into the tally as failures."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._amounts: dict[Key, int] = {}
        self._opened: set[Key] = set()
        self._unsure: dict[Key, int] = {}

    def amount_fen(self, envelope: str, user: str) -> int | None:
        """Return the amount that the user is known to have won; None if none."""
        return self._amounts.get((envelope, user))

    def sent(self, envelope: str, user: str) -> None:
        """Note that an open is sent; `received` follows, or nothing if the user is cut off."""
        self._unsure[envelope, user] = self._unsure.get((envelope, user), 0) + 1

    def received(self, call: str, envelope: str, user: str, result: str, fen: int | None) -> None:
        """Compare the answer to a grab or an open with earlier answers to this user."""
        key = envelope, user
        others = self._unsure.get(key, 0)
        if call == "open":
            # Another open of the same user may be in flight: only then may `already_opened` come before `opened`.
            others -= 1
            self._unsure[key] = others
        if result in WON:
            self._won(call, key, result, fen, others)
        elif key in self._amounts:
            self._tally.fail(f"{call} said {result} to one who had won a share")

    def _won(self, call: str, key: Key, result: str, fen: int | None, others: int) -> None:
        if fen is None or fen < 1:
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
