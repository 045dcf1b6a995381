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
from wire.limits import DEADLINE_S


class SetnodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_*; see `runtime.settings`."""

    listen: str
    """HOST:PORT for links and probes; port 0 takes a free one."""
    topology: str
    """Path of the topology file."""
    set: str
    """Name of this server's SET in the topology."""
    server: str
    """Name of this server in the topology."""
    postgres_dsn: str
    """The SET's Postgres, with the role that the setnode logs in as."""
    memcached: str
    """Where the SET's memcached listens: HOST:PORT, or the path of a socket."""
    wallet_url: str
    """Where the wallet listens, such as `http://127.0.0.1:18001`."""
    link_key: str
    """This SET's own key, `setnode/SET:HEX` (`wire.keys`): with it the wallet is called."""
    accept_keys: str
    """The keys of those who may call this server: `gateway/SERVER:HEX operator/SERVER:HEX`."""
    password_key: Annotated[str, msgspec.Meta(min_length=PASSWORD_KEY_CHARS)]
    """Passwords are stored under it, and headers sealed: with another one no password matches, and every envelope made
    before freezes at its next load. The same for all setnodes, for ever."""
    tls_cert: str = ""
    """Path of this process's certificate, PEM: it listens and calls by TLS alone then
    (`runtime.tls`). It is read again when it changes. Unset: no TLS."""
    tls_key: str = ""
    """Path of its key. Unset: it is in the same file."""
    tls_ca: str = ""
    """Path of the certificates of the CAs whose certificates are accepted. It goes with `tls_cert`."""
    sandbox_clock: str = ""
    """Path of a sandbox's clock; `./run --sandbox` sets it, and nobody else may. Unset: the machine's clock."""
    trace_endpoint: str = ""
    """Where a collector of OpenTelemetry takes traces, such as `http://127.0.0.1:4318`; unset: none are made."""
    archive: str = ""
    """The archive, from which envelopes of cold days are read: a folder, or `s3://bucket/prefix`. Unset: none."""
    archive_key: str = ""
    """Verifies archived days. The same for all setnodes, and the one that signed them."""
    admission_cap: Annotated[int, msgspec.Meta(ge=1)] = SET_CAP
    """Transactions in the SET's Postgres at once, over all its servers: a few for each core."""
    admission_envelope_cap: Annotated[int, msgspec.Meta(ge=1)] = ENVELOPE_CAP
    """Leases of one hot envelope over all servers of the SET; a second writer would only conflict."""
    # Without one nothing is claimed; with all of the server's leases creates would find none.
    claim_connections: Annotated[int, msgspec.Meta(ge=1, lt=LOCAL_CAP)] = CLAIM_CONNECTIONS
    """Commits of claims that may overlap in this server."""
    live_shares: Annotated[int, msgspec.Meta(ge=LIMITS.max_count)] = LIVE_SHARES
    """Shares of the envelopes in memory, each envelope counted as ten more; above it idle ones passivate."""
    wins_per_day: Annotated[int, msgspec.Meta(ge=0, le=MOST_PLACES)] = 0
    """Shares that a user may win in a business day, over all SETs; 0: as many as they like. Opens then ask the wallet
    first, and are refused while it is away (`setnode.daily`)."""
    opens_from_sender_per_day: Annotated[int, msgspec.Meta(ge=0, le=MOST_PLACES)] = 0
    """The same for the envelopes of one sender."""
    sweep_after_s: Annotated[float, msgspec.Meta(gt=2 * DEADLINE_S, le=1e9)] = SWEEP_AFTER_S
    """Seconds after which a create that paid in but made no envelope is undone; more than the link's deadline."""
    sweep_in_a_row: Annotated[int, msgspec.Meta(ge=1)] = SWEEP_IN_A_ROW
    """Funds without a header, and none with one between them, above which the sweeper stops and waits for an
    operator."""
