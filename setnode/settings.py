"""The settings of one setnode server."""

from typing import Annotated

import msgspec

from envelope.limits import LIMITS
from setnode.limits import (
    CLAIM_CONNECTIONS,
    ENVELOPE_CAP,
    LIVE_SHARES,
    LOCAL_CAP,
    MOST_PLACES,
    PASSWORD_KEY_CHARS,
    SET_CAP,
    SWEEP_AFTER_S,
    SWEEP_IN_A_ROW,
)


class SetnodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_*; see `runtime.settings`.

    `topology` is the file's path, `set` and `server` are names in it. `archive` is a folder, empty for none.
    """

    listen: str
    topology: str
    set: str
    server: str
    postgres_dsn: str
    memcached: str
    wallet_url: str
    link_key: str
    """This SET's own key, `setnode/SET:HEX` (`wire.keys`): with it the wallet is called."""
    accept_keys: str
    """The keys of those who may call this server: `gateway/SERVER:HEX operator/SERVER:HEX`."""
    password_key: Annotated[str, msgspec.Meta(min_length=PASSWORD_KEY_CHARS)]
    """Passwords are stored under it, and headers sealed: with another one no password matches, and every envelope made
    before freezes at its next load. The same for all setnodes, for ever."""
    archive: str = ""
    archive_key: str = ""
    admission_cap: Annotated[int, msgspec.Meta(ge=1)] = SET_CAP
    admission_envelope_cap: Annotated[int, msgspec.Meta(ge=1)] = ENVELOPE_CAP
    # Without one nothing is claimed; with all of the server's leases creates would find none.
    claim_connections: Annotated[int, msgspec.Meta(ge=1, lt=LOCAL_CAP)] = CLAIM_CONNECTIONS
    live_shares: Annotated[int, msgspec.Meta(ge=LIMITS.max_count)] = LIVE_SHARES
    wins_per_day: Annotated[int, msgspec.Meta(ge=0, le=MOST_PLACES)] = 0
    """Shares that a user may win in a business day, over all SETs; 0: as many as they like. Opens then ask the wallet
    first, and are refused while it is away (`setnode.daily`)."""
    opens_from_sender_per_day: Annotated[int, msgspec.Meta(ge=0, le=MOST_PLACES)] = 0
    """The same for the envelopes of one sender."""
    sweep_after_s: float = SWEEP_AFTER_S
    sweep_in_a_row: Annotated[int, msgspec.Meta(ge=1)] = SWEEP_IN_A_ROW
