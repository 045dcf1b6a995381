"""The closing entry of a claim log."""

from dataclasses import dataclass

from envelope.outcomes import Entry


@dataclass(frozen=True, slots=True)
class Closing:
    """The entry after which nothing can be appended: it returns `amount_fen`, all that is left, to the sender."""

    entry: Entry
    seq: int
    amount_fen: int
    at_ms: int
