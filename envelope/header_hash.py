r"""The hash that binds an envelope's header to the money that was paid for it.

At the create it is stored with the fund, in the wallet's database; the header is in the SET's. So total, seed, sender,
times, password or bounds of an envelope cannot be changed in one of the two databases without the audit seeing it.

    hash = SHA-256( ASCII("hongbao.header/1\n") + JSON array of `_fields` )

The JSON has no spaces and escapes only what it must; instants are milliseconds since the epoch, the seed is hex, and
of the guests it only says whether some are invited by name. The seal is not in it.
"""

import hashlib
from typing import Final

import msgspec

from envelope.terms import Terms

HASH_BYTES: Final = 32
_PREFIX: Final = b"hongbao.header/1\n"
_json: Final = msgspec.json.Encoder().encode


def header_hash(terms: Terms) -> bytes:
    """Return the hash of a header: 32 bytes, the same for ever for the same terms."""
    return hashlib.sha256(_PREFIX + _json(_fields(terms))).digest()


def _fields(terms: Terms) -> tuple[object, ...]:
    return (
        terms.envelope_id,
        terms.sender,
        terms.kind,
        terms.split,
        terms.split_version,
        terms.total_fen,
        terms.count,
        terms.min_fen,
        terms.max_fen,
        terms.greeting,
        terms.created_at_ms,
        terms.opens_at_ms,
        terms.expires_at_ms,
        terms.seed.hex(),
        terms.create_key,
        terms.invited is not None,
        terms.password_mac,
    )
