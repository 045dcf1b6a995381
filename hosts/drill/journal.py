"""Every request and every answer, in a file, before it is sent and after it is heard; and what each user was told.

The file is the witness: a line for each attempt, one for each answer. The same is kept in memory, so that a second
answer that differs from the first is found the moment it comes.
"""

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

WON = frozenset({"opened", "already_opened"})


class Journal:
    """Use it as `with`. `wrong` are sentences, one for each user who was told two things."""

    def __init__(self, path: Path) -> None:
        # Line by line: what was asked stands in the file before it is sent.
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._number = 0
        self.won: dict[int, dict[str, int]] = {}
        """By envelope the amount that each user was told, in fen."""
        self.refused: dict[int, set[str]] = {}
        """By envelope those who were told that no share is left."""
        self.touched: set[int] = set()
        """Envelopes of which something was told since this was cleared."""
        self.recent: list[tuple[int, str]] = []
        """Who was told since this was cleared, and of which envelope."""
        self.acknowledged = 0
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def asks(self, what: str, **more: Any) -> int:
        """Note a request that is about to be sent; returns its number."""
        self._number += 1
        self._write({"n": self._number, "ask": what, **more})
        return self._number

    def heard(self, number: int, **what: Any) -> None:
        """Note what came of a request: an answer, or an error's code."""
        self._write({"n": number, **what})

    def told(self, number: int, envelope_id: int, user: str, result: str, amount_fen: int | None) -> None:
        """Note the answer to an open, and compare it with what the same user was told before."""
        self.heard(number, result=result, amount_fen=amount_fen)
        self.touched.add(envelope_id)
        won, refused = self.won.setdefault(envelope_id, {}), self.refused.setdefault(envelope_id, set())
        before = won.get(user)
        if result in WON and amount_fen is not None:
            if before is None:
                won[user] = amount_fen
                self.acknowledged += 1
                self.recent.append((envelope_id, user))
            elif before != amount_fen:
                self._differs(envelope_id, user, f"{before} fen, then {amount_fen} fen")
            if user in refused:
                self._differs(envelope_id, user, "that no share is left, then of one")
        else:
            refused.add(user)
            if before is not None:
                self._differs(envelope_id, user, f"{before} fen, then {result}")

    def _differs(self, envelope_id: int, user: str, what: str) -> None:
        self.wrong.append(f"{user} was told of {envelope_id}: {what}")

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps({"at": round(time.time(), 4), **line}) + "\n")
