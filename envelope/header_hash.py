r"""The hash that binds an envelope's header to the money that was paid for it.

At the create it is stored with the fund, in the wallet's database; the header is in the SET's. So total, seed, sender,
times, password or bounds of an envelope cannot be changed in one of the two databases without the audit seeing it.

    hash = SHA-256( ASCII("hongbao.header/1\n") + JSON array of `_fields` )

The JSON has no spaces and escapes only what it must; instants are milliseconds since the epoch, the seed is hex. The
seal is not in it. Of an envelope with named receivers the text is "hongbao.header/2\n" and, in place of `true`, the
receivers in order: an intruder who exchanged one could take a share. (Before, it said only that there were some.)
"""

import hashlib
from typing import Final

import msgspec

from envelope.terms import Terms

HASH_BYTES: Final = 32
_PREFIX: Final = b"hongbao.header/1\n"
_NAMED_PREFIX: Final = b"hongbao.header/2\n"
_json: Final = msgspec.json.Encoder().encode


def header_hash(terms: Terms) -> bytes:
    """Return the hash of a header: 32 bytes, the same for ever for the same terms."""
    if terms.invited is None:
        return hashlib.sha256(_PREFIX + _json(_fields(terms, named=False))).digest()
    return hashlib.sha256(_NAMED_PREFIX + _json(_fields(terms, named=sorted(terms.invited)))).digest()


def header_hashes(terms: Terms) -> tuple[bytes, ...]:
    """Return every hash that may have been stored for these terms, the present one first."""
    if terms.invited is None:
        return (header_hash(terms),)
    return header_hash(terms), hashlib.sha256(_PREFIX + _json(_fields(terms, named=True))).digest()


def _fields(terms: Terms, *, named: bool | list[str]) -> tuple[object, ...]:
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
        named,
        terms.password_mac,
    )
