"""The figures a plan is made from: read from a bench file, or measured here and now in about half a minute."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from errors import Refused
from loadtest.bench import commits, cpu, footprint, payouts
from loadtest.bench.figures import Bench, Figures
from loadtest.group_commit import GroupCommit
from machine.account import server_account
from machine.debian_programs import find_program

COMMIT_S = 8.0
CPU_S = 2
WEIGHED = 5_000
_OF_COMMIT = ("fixed_ms", "per_row_us", "most", "stall_ms", "opens_per_second")
NEEDED = ("commit", "cpu", "memory", "payouts")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine of `cores` cores does. CPU in µs per open, over HTTP, payout included; sizes in bytes."""

    cores: int
    fixed_ms: float
    per_row_us: float
    most: int
    stall_ms: float
    opens_per_second: float
    gateway_us: float
    setnode_us: float
    postgres_us: float
    wallet_us: float
    credits_per_second: float
    wal_per_claim: float
    disk_per_claim: float
    disk_per_envelope: float
    envelope_bytes: float
    share_bytes: float
    request_bytes: float

    @property
    def model(self) -> GroupCommit:
        """The model of a SET's commits."""
        return GroupCommit(self.fixed_ms / 1e3, self.per_row_us / 1e6, self.most, self.stall_ms / 1e3)

    @property
    def set_capacity(self) -> float:
        """Opens a second of one SET on a machine like this: what its commits carry, and what its cores can compute.

        The first was measured without links and payouts, the second counts them.
        """
        return min(self.opens_per_second, self.cores * 1e6 / (self.setnode_us + self.postgres_us))


def read(path: Path) -> Measured:
    """Take the figures of `./run bench --json`; raises Refused where the file lacks a section."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return _of(found["sections"], int(found["machine"]["cores"]))
    except (OSError, ValueError) as error:
        raise Refused("bench_file_unreadable", f"{path} cannot be read as a bench file: {error}") from error
    except KeyError as error:
        needed = " ".join(f"--only {one}" for one in NEEDED)
        raise Refused(
            "bench_file_short", f"{path} has no figure {error}; make it by: ./run bench {needed} --json {path}"
        ) from error


async def measure(bench: Bench) -> Measured:
    """Measure on this machine what a plan needs; smaller and rougher than `./run bench`. Raises Refused `no_wrk`."""
    bench.say("looking for wrk")
    await find_program("wrk", server_account(), bench.folder)  # not missed after half a minute of measuring
    bench.say("measuring group commits")
    sections: dict[str, Any] = {"commit": await commits.measure(bench, seconds=COMMIT_S)}
    bench.say("measuring CPU over HTTP")
    sections["cpu"] = await cpu.measure(bench, seconds=CPU_S)
    bench.say("measuring payouts")
    sections["payouts"] = await payouts.measure(bench, payouts.Size(2_000, 20, 1))
    bench.say("weighing envelopes")
    weights = {kind: await footprint.weigh_one(kind, WEIGHED) for kind in ("fresh", "full", "waiting")}
    sections["memory"] = {"bytes": {kind: {"resident": one} for kind, one in weights.items()}}
    if not all(one.holds for one in bench.audits):
        raise Refused("money_wrong", "the money of a measurement does not add up; a plan on it would be worth nothing")
    return _of(sections, os.cpu_count() or 1)


def _of(sections: Figures, cores: int) -> Measured:
    commit, per_open, weights = sections["commit"], sections["cpu"]["us_per_open"], sections["memory"]["bytes"]
    return Measured(
        cores=cores,
        **{name: commit[name] for name in _OF_COMMIT},
        gateway_us=per_open["gateway"],
        setnode_us=per_open["setnode"],
        postgres_us=per_open["Postgres of the SET"],
        wallet_us=per_open["wallet"] + per_open["Postgres of the wallet"],
        credits_per_second=sections["payouts"]["credits_per_second"],
        wal_per_claim=commit["wal_bytes_per_claim"],
        disk_per_claim=commit["disk_bytes_per_claim"],
        disk_per_envelope=commit["disk_bytes_per_envelope"],
        envelope_bytes=weights["fresh"]["resident"],
        share_bytes=(weights["full"]["resident"] - weights["fresh"]["resident"]) / 20,
        request_bytes=weights["waiting"]["resident"],
    )
