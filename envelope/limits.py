"""Every limit of the rules in one place, each with its reason; their relations are checked at import.

These are the limits that a user can meet. Limits of queues, pools and waits stand in the rooms that own those.
"""

from dataclasses import dataclass

from envelope.money import MAX_TOTAL_FEN
from errors import check_limit

_DAY_S = 86_400
# JSON may write any character as two \uXXXX escapes.
_JSON_BYTES_PER_CHAR = 12
# Names of fields, punctuation and numbers of the largest create call.
_JSON_FRAME_BYTES = 1_024
# A month of day tables has at least 28 days; an envelope must be closed and archived well before its table is reused.
_DAY_TABLES_COME_ROUND_S = 28 * _DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the rules, all inclusive. A deployment may tighten them; contradictions are refused."""

    # One envelope, all shares: see MAX_TOTAL_FEN. Also the most that one mistake can cost a sender.
    max_total_fen: int = MAX_TOTAL_FEN
    # Shares of one envelope. All amounts are computed at creation and kept by the actor: 10,000 take under
    # 20 ms and 400 KB. A group chat has 500 members; more is for campaigns.
    max_count: int = 10_000
    # One line on a phone; bounded varchar in the day table (a `text` column would cost two more relations
    # a leaf).
    greeting_chars: int = 64
    # A password is read aloud or typed from a picture.
    password_chars: int = 32
    # `to`: kept with the envelope and searched at every grab. The create call requires at least one name, and
    # allows more names than shares.
    invited_users: int = 100
    # The `sub` of a token: fits a UUID with a prefix, bounded varchar in every claim.
    user_id_chars: int = 40
    # Per user and envelope; after that every open by this user is `wrong_password`. Enough for typing errors, and
    # five guesses out of 10^k for k digits.
    wrong_password_tries: int = 5
    # In less than a second no user can open.
    min_expires_in_s: int = 1
    # As WeChat: what is left is refunded after 24 hours.
    default_expires_in_s: int = _DAY_S
    max_expires_in_s: int = 3 * _DAY_S
    # How far ahead `opens_at` may lie: an envelope that stays open for a day is prepared five days before.
    max_opens_in_s: int = 5 * _DAY_S
    # From its creation to its end, whatever opens_at and expires_in_s are. Its day's tables are written to so long and
    # can be cold within about a week; more would keep every day of every SET in the hot tables for longer.
    max_lives_s: int = 6 * _DAY_S
    # A UUID has 36 characters; the key stands in the hot table's unique index.
    idempotency_key_chars: int = 64
    # The largest legal create call fits (checked below); a larger body is refused unparsed.
    body_bytes: int = 65_536

    def __post_init__(self) -> None:
        """Raise InvariantBroken("limits") where a relation between the limits does not hold."""
        for name in self.__slots__:
            check_limit(getattr(self, name) >= 1, f"{name} must be at least 1")
        check_limit(self.max_total_fen <= MAX_TOTAL_FEN, f"max_total_fen must be at most {MAX_TOTAL_FEN}")
        # The largest product a split draws below; 2^56 keeps rejections under one in 256 (split.stream).
        check_limit(2 * (self.max_total_fen + 2) ** 2 <= 1 << 56, "2 * (max_total_fen + 2)^2 must be at most 2^56")
        check_limit(self.max_count <= self.max_total_fen, "every share needs a fen: max_count <= max_total_fen")
        check_limit(
            self.min_expires_in_s <= self.default_expires_in_s <= self.max_expires_in_s,
            "min_expires_in_s <= default_expires_in_s <= max_expires_in_s",
        )
        check_limit(
            self.max_opens_in_s + self.default_expires_in_s <= self.max_lives_s,
            "an envelope that opens as late as possible must be able to stay open as long as is usual",
        )
        check_limit(self.max_expires_in_s <= self.max_lives_s, "max_expires_in_s <= max_lives_s")
        # Half of the time until the tables are reused remains for refunds, proofs and the archive.
        check_limit(
            self.max_lives_s <= _DAY_TABLES_COME_ROUND_S // 2,
            "an envelope must end at most 14 days after it was made, because its day table is reused after 28",
        )
        check_limit(
            self.largest_create_bytes <= self.body_bytes,
            f"the largest create call has {self.largest_create_bytes} bytes, body_bytes must hold it",
        )

    @property
    def largest_create_bytes(self) -> int:
        """Bytes of the largest legal create call when every character is escaped."""
        chars = self.greeting_chars + self.password_chars + self.invited_users * (self.user_id_chars + 1)
        return _JSON_FRAME_BYTES + _JSON_BYTES_PER_CHAR * chars


LIMITS = Limits()
