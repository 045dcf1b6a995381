"""Every limit of the rules in one place, each with its reason; their relations are checked at import.

Limits of queues, pools and waits belong to the rooms that own those; these are the ones a user can meet.
"""

from dataclasses import dataclass

from envelope.errors import InvariantBroken
from envelope.money import MAX_TOTAL_FEN

_DAY_S = 86_400
# JSON may write any character as two \uXXXX escapes.
_JSON_BYTES_PER_CHAR = 12
# Names of fields, punctuation and numbers of the largest create call.
_JSON_FRAME_BYTES = 1_024
# February's day tables come round after 28 days; an envelope must be closed and archived well before.
_DAY_TABLES_COME_ROUND_S = 28 * _DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the rules, all inclusive. A deployment may tighten them; nonsense is refused."""

    # One envelope, all shares: see MAX_TOTAL_FEN. Also what one mistake of a sender can cost him.
    max_total_fen: int = MAX_TOTAL_FEN
    # Shares of one envelope. All amounts are computed at creation and kept by the actor: 10,000 take under
    # 20 ms and 400 KB. A group chat has 500 members; more is for campaigns.
    max_count: int = 10_000
    # One line on a phone; bounded varchar in the day table (a `text` column would cost two more relations
    # a leaf).
    greeting_chars: int = 64
    # A password is read aloud or typed from a picture.
    password_chars: int = 32
    # `to`: kept with the envelope and looked through at every grab. That it is >= 1, and that a list without
    # shares for all is fine, are rules of the create call.
    invited_users: int = 100
    # The `sub` of a token: fits a UUID with a prefix, bounded varchar in every claim.
    user_id_chars: int = 40
    # Per user and envelope; then his answer stays `wrong_password`. Five typing errors, or 5 of 10^k guesses.
    wrong_password_tries: int = 5
    # Below a second nobody can open.
    min_expires_in_s: int = 1
    # What WeChat does: the rest goes back after 24 hours.
    default_expires_in_s: int = _DAY_S
    # Three days keep a day table open at most six days (with max_opens_in_s): it can be cold within a week
    # or so.
    max_expires_in_s: int = 3 * _DAY_S
    # How far ahead `opens_at` may lie.
    max_opens_in_s: int = 3 * _DAY_S
    # A UUID has 36 characters; the key stands in the hot table's unique index.
    idempotency_key_chars: int = 64
    # The largest legal create call fits (checked below), a larger body is not worth parsing.
    body_bytes: int = 65_536

    def __post_init__(self) -> None:
        """Raise InvariantBroken("limits") where a relation between the limits does not hold."""
        for name in self.__slots__:
            _need(getattr(self, name) >= 1, f"{name} must be at least 1")
        _need(self.max_total_fen <= MAX_TOTAL_FEN, f"max_total_fen must be at most {MAX_TOTAL_FEN}")
        # The largest product a split draws below; 2^56 keeps rejections under one in 256 (split.stream).
        _need(2 * (self.max_total_fen + 2) ** 2 <= 1 << 56, "2 * (max_total_fen + 2)^2 must be at most 2^56")
        _need(self.max_count <= self.max_total_fen, "every share needs a fen: max_count <= max_total_fen")
        _need(
            self.min_expires_in_s <= self.default_expires_in_s <= self.max_expires_in_s,
            "min_expires_in_s <= default_expires_in_s <= max_expires_in_s",
        )
        # Half of the time until the tables come round is left for refunds, proofs and the archive.
        _need(
            self.max_opens_in_s + self.max_expires_in_s <= _DAY_TABLES_COME_ROUND_S // 2,
            "an envelope must end at most 14 days after it was made, its day table comes round after 28",
        )
        _need(
            self.largest_create_bytes <= self.body_bytes,
            f"the largest create call has {self.largest_create_bytes} bytes, body_bytes must hold it",
        )

    @property
    def largest_create_bytes(self) -> int:
        """Bytes of the largest legal create call when every character is escaped."""
        chars = self.greeting_chars + self.password_chars + self.invited_users * (self.user_id_chars + 1)
        return _JSON_FRAME_BYTES + _JSON_BYTES_PER_CHAR * chars


def _need(holds: bool, sentence: str) -> None:
    if not holds:
        raise InvariantBroken("limits", sentence)


LIMITS = Limits()
