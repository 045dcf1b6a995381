"""The arithmetic of a plan: from a load, and the figures of one machine, to numbers of machines and bytes."""

import math
from dataclasses import dataclass, field

from backup.limits import KEEP_COPIES
from errors import Refused
from events.limits import KEPT_S
from loadtest.group_commit import Latency
from loadtest.plan.measured import Measured
from setnode.limits import CLAIM_CONNECTIONS, ENVELOPE_WEIGHT, LIVE_SHARES
from sharding.slots import PRODUCTION, TABLES_PER_DATABASE

SERVICE_CONNECTIONS = 10
"""Connections of a setnode besides those that write claims: create, load, fetch, payout, expiry, sweep, listen."""
EMPTY_TABLE_BYTES = 38_000
"""A leaf with its indexes before its first row, as measured when the layout was chosen."""
RELCACHE_BYTES = 15_000
"""What a backend keeps for each leaf that it touched; the opens of a day touch the leaves of two days."""
BACKUP_COPIES = KEEP_COPIES
"""Base copies of a server, one a day (docs/operations/retention.md): so many days of its log are kept, too."""
ARCHIVE_CLAIM_BYTES = 7.1
"""A claim in an archived day, as measured (docs/operations/rotation.md)."""
EVENT_CLAIM_BYTES = 40
"""A claim in the event log, while a receiver has not passed it (docs/operations/events.md)."""
HOT_DAYS = 2
SPARE = 1
"""One SET, one server a SET and one gateway more than the load needs: any one may be lost at the peak."""
DAY_S = 86_400


@dataclass(frozen=True)
class Load:
    """A load: `peak` in opens a second, `daily` in claims; `target` is how busy a part may be at the peak."""

    peak: float
    daily: float
    shares: int = 5
    retention_days: int = 3
    target: float = 0.6
    set_capacity: float | None = None

    def __post_init__(self) -> None:
        """Raise Refused `load_invalid` for figures that are no load."""
        if self.peak <= 0 or self.daily <= 0:
            raise Refused("load_invalid", "the peak and the claims of a day must be more than 0")
        if not 0.05 <= self.target <= 0.95:  # noqa: PLR2004 - below it is waste, above it queues have no end
            raise Refused("load_invalid", f"--target must be 0.05 to 0.95, is {self.target}")
        if self.shares < 1 or not 1 <= self.retention_days <= 31:  # noqa: PLR2004 - the names of a month
            raise Refused("load_invalid", "an envelope has at least 1 share, and hot days are 1 to 31")
        if self.set_capacity is not None and self.set_capacity <= 0:
            raise Refused("load_invalid", "--set-capacity must be more than 0")


@dataclass(frozen=True)
class Plan:
    """The plan. `*_bytes` are for one SET unless their name says otherwise; `notes` are warnings as sentences."""

    set_capacity: float
    sets: int
    opens_per_set: float
    opens_per_set_one_lost: float
    utilisation_one_lost: float
    servers_per_set: int
    servers: int
    postgres_cores_per_set: float
    gateways: int
    links: int
    postgres_connections_per_set: int
    envelopes_per_day: float
    slots_per_set: int
    leaves_per_set: int
    claims_per_leaf: float
    leaf_bytes: float
    disk_per_day_bytes: float
    disk_bytes: float
    disk_per_day_all_bytes: float
    wal_per_day_bytes: float
    wal_per_second_at_peak_bytes: float
    backup_copies_bytes: float
    kept_log_bytes: float
    archive_per_day_all_bytes: float
    event_log_bytes: float
    live_envelopes_per_server: int
    memory_per_server_bytes: float
    postgres_cache_bytes: float
    wallets: int
    wallet_day_hours: float
    p50_ms: float | None
    p99_ms: float | None
    p99_ms_one_lost: float | None
    notes: list[str] = field(default_factory=list)


def plan(load: Load, seen: Measured) -> Plan:
    """Return what `load` needs when every machine is one like the measured."""
    capacity = load.set_capacity or seen.set_capacity
    working = max(1, math.ceil(load.peak / (capacity * load.target)))
    sets = working + SPARE
    usual, one_lost = load.peak / sets, load.peak / working
    servers = max(1, math.ceil(one_lost * seen.setnode_us / 1e6 / load.target)) + SPARE
    gateways = max(1, math.ceil(load.peak * seen.gateway_us / 1e6 / load.target)) + SPARE
    slots = math.ceil(PRODUCTION.databases / sets) * TABLES_PER_DATABASE
    leaves_a_day = 2 * slots + slots // TABLES_PER_DATABASE
    envelopes = load.daily / load.shares
    # What a claim and its piece of the header take; the busiest SET holds as many databases as the slots say.
    part = slots / PRODUCTION.slots
    claims_disk = load.daily * part * seen.disk_per_claim
    disk_a_day = claims_disk + envelopes * part * seen.disk_per_envelope + leaves_a_day * EMPTY_TABLE_BYTES
    live = int(min(LIVE_SHARES / (load.shares + ENVELOPE_WEIGHT), envelopes * part / servers))
    connections = servers * (CLAIM_CONNECTIONS + SERVICE_CONNECTIONS)
    wait_usual, wait_lost = _latency(seen, usual, load), _latency(seen, one_lost, load)
    made = Plan(
        set_capacity=capacity,
        sets=sets,
        opens_per_set=usual,
        opens_per_set_one_lost=one_lost,
        utilisation_one_lost=one_lost / capacity,
        servers_per_set=servers,
        servers=servers * sets,
        postgres_cores_per_set=one_lost * seen.postgres_us / 1e6 / load.target,
        gateways=gateways,
        links=gateways * servers * sets,
        postgres_connections_per_set=connections,
        envelopes_per_day=envelopes,
        slots_per_set=slots,
        leaves_per_set=leaves_a_day * load.retention_days,
        claims_per_leaf=load.daily / PRODUCTION.slots,
        leaf_bytes=load.daily / PRODUCTION.slots * seen.disk_per_claim,
        disk_per_day_bytes=disk_a_day,
        disk_bytes=disk_a_day * load.retention_days,
        disk_per_day_all_bytes=disk_a_day / part,
        wal_per_day_bytes=load.daily * part * seen.wal_per_claim,
        wal_per_second_at_peak_bytes=one_lost * seen.wal_per_claim,
        backup_copies_bytes=BACKUP_COPIES * disk_a_day * load.retention_days,
        kept_log_bytes=BACKUP_COPIES * load.daily * part * seen.wal_per_claim,
        archive_per_day_all_bytes=load.daily * ARCHIVE_CLAIM_BYTES,
        event_log_bytes=load.daily * part * EVENT_CLAIM_BYTES * KEPT_S / DAY_S,
        live_envelopes_per_server=live,
        memory_per_server_bytes=live * (seen.envelope_bytes + load.shares / 2 * seen.share_bytes)
        + one_lost / servers * seen.request_bytes,
        postgres_cache_bytes=connections * leaves_a_day * HOT_DAYS * RELCACHE_BYTES,
        wallets=max(1, math.ceil(load.daily / DAY_S / (seen.credits_per_second * load.target))),
        wallet_day_hours=load.daily / seen.credits_per_second / 3600,
        p50_ms=wait_usual.p50_s * 1e3 if wait_usual else None,
        p99_ms=wait_usual.p99_s * 1e3 if wait_usual else None,
        p99_ms_one_lost=wait_lost.p99_s * 1e3 if wait_lost else None,
    )
    made.notes.extend(_notes(load, made))
    return made


def _latency(seen: Measured, rate: float, load: Load) -> Latency | None:
    """Predict the latency inside one SET; None where the capacity was given and not measured, or is exceeded."""
    model = seen.model
    if load.set_capacity is not None or rate >= model.capacity:
        return None
    return model.latency(rate)


def _notes(load: Load, made: Plan) -> list[str]:
    notes = []
    if made.sets > PRODUCTION.databases:
        notes.append(
            f"An ID names {PRODUCTION.databases} databases, so no more than as many SETs can share the load: "
            f"{made.sets} SETs need stronger machines (--set-capacity), not more of them."
        )
    if made.wallets > 1:
        notes.append(
            f"One wallet database on a machine like this pays a day's claims in {made.wallet_day_hours:,.0f} hours. "
            f"This load needs {made.wallets} of them, divided by user, which hongbao does not do yet; money is safe in "
            "escrow meanwhile, it only arrives late."
        )
    if made.p99_ms is None:
        notes.append("Latency is not predicted: it is only known for the capacity that was measured.")
    if load.daily / DAY_S > load.peak:
        notes.append("The claims of a day do not fit into it at the given peak.")
    return notes
