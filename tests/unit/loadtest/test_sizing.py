"""The arithmetic of the plan."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from errors import Refused
from loadtest.plan import measured
from loadtest.plan.command import command
from loadtest.plan.measured import Measured
from loadtest.plan.sizing import SERVICE_CONNECTIONS, Load, plan
from setnode import sessions
from setnode.limits import ENVELOPE_WEIGHT, LIVE_SHARES

SEEN = Measured(
    cores=2, fixed_ms=2.0, per_row_us=15.0, most=2_000, stall_ms=0.0, opens_per_second=50_000.0,
    gateway_us=50.0, setnode_us=20.0, postgres_us=20.0, wallet_us=20.0, credits_per_second=30_000.0,
    wal_per_claim=300.0,
    disk_per_claim=250.0, disk_per_envelope=500.0, envelope_bytes=1_000.0, share_bytes=100.0, request_bytes=250.0,
)  # fmt: skip
RECORD = Load(peak=760_000, daily=14.2e9, shares=5, retention_days=3, target=0.5)


def test_one_set_may_be_lost() -> None:
    """The sets that are left after one is lost carry the peak at no more than the target."""
    made = plan(RECORD, SEEN)
    assert made.set_capacity == 50_000
    assert made.sets == 32
    assert made.opens_per_set_one_lost * (made.sets - 1) == pytest.approx(RECORD.peak)
    assert made.utilisation_one_lost <= RECORD.target


def test_stalls_make_waiting_longer_and_nothing_else() -> None:
    """The p99 of the plan counts the stall that was measured, with all SETs there and with one lost."""
    calm, slow = plan(RECORD, SEEN), plan(RECORD, msgspec_replace(SEEN, stall_ms=5.0))
    assert calm.p99_ms is not None
    assert calm.p99_ms_one_lost is not None
    assert calm.p99_ms < calm.p99_ms_one_lost
    later = [
        p99_ms + 5.0 * (1 + rate * SEEN.per_row_us / 1e6)
        for p99_ms, rate in ((calm.p99_ms, calm.opens_per_set), (calm.p99_ms_one_lost, calm.opens_per_set_one_lost))
    ]
    assert slow == replace(calm, p99_ms=pytest.approx(later[0]), p99_ms_one_lost=pytest.approx(later[1]))


def test_latency_is_predicted_below_what_commits_carry() -> None:
    """Where commits alone would not keep up with the load of a SET there is no figure, but a note."""
    made = plan(RECORD, msgspec_replace(SEEN, most=10))
    assert made.p99_ms is None
    assert "Latency is not predicted" in " ".join(made.notes)


def test_the_cores_bound_a_set_where_commits_do_not() -> None:
    """A SET carries what its cores can compute, links and payouts counted."""
    assert plan(RECORD, msgspec_replace(SEEN, setnode_us=60.0)).set_capacity == 2e6 / 80


def msgspec_replace(seen: Measured, **more: float) -> Measured:
    import msgspec

    return msgspec.structs.replace(seen, **more)


def test_servers_gateways_and_connections() -> None:
    """Each is what the CPU needs at the target, and one more; every gateway has a link to every setnode."""
    made = plan(RECORD, SEEN)
    assert made.servers_per_set == 1 + 1  # 24,516 opens/s x 20 µs = 0.49 cores, at 50 % one
    assert made.gateways == 76 + 1  # 760,000 x 50 µs = 38 cores, at 50 % 76
    assert made.links == 77 * 2 * 32
    assert made.postgres_connections_per_set == 2 * (2 + SERVICE_CONNECTIONS)


def test_connections_of_a_setnode_are_counted_right() -> None:
    """The constant is the number of sessions that a setnode keeps."""
    assert len(sessions.OPTIONS) == SERVICE_CONNECTIONS


def test_disk_and_log() -> None:
    """The busiest SET holds 4 of 100 databases; a day is its claims, its headers and its tables."""
    made = plan(RECORD, SEEN)
    assert made.slots_per_set == 40
    claims, headers = 14.2e9 * 0.04 * 250, 2.84e9 * 0.04 * 500
    assert made.disk_per_day_bytes == pytest.approx(claims + headers + 84 * 38_000)
    assert made.disk_bytes == pytest.approx(3 * made.disk_per_day_bytes)
    assert made.wal_per_day_bytes == pytest.approx(14.2e9 * 0.04 * 300)
    assert made.leaves_per_set == 3 * 84
    assert made.leaf_bytes == pytest.approx(14.2e6 * 250)


def test_memory_is_bounded_by_what_stays_awake() -> None:
    """A server keeps no more shares awake than its limit, however many envelopes there are."""
    made = plan(RECORD, SEEN)
    assert made.live_envelopes_per_server == LIVE_SHARES // (5 + ENVELOPE_WEIGHT)
    few = plan(replace(RECORD, daily=1_000_000), SEEN)
    assert few.live_envelopes_per_server == int(200_000 * 0.04 / 2)


def test_what_no_plan_can_mend_is_said() -> None:
    """More SETs than databases, and more credits than one wallet pays, are told in sentences."""
    notes = " ".join(plan(replace(RECORD, set_capacity=5_000.0), SEEN).notes)
    assert "100 databases" in notes
    assert "wallet" in notes
    assert "Latency is not predicted" in notes
    assert plan(Load(peak=10_000, daily=1e8), SEEN).notes == []


def test_more_load_never_needs_less() -> None:
    """Sets, servers and gateways grow with the peak."""
    plans = [plan(replace(RECORD, peak=peak), SEEN) for peak in (1_000, 10_000, 100_000, 1_000_000)]
    for less, more in itertools.pairwise(plans):
        assert less.sets <= more.sets
        assert less.gateways <= more.gateways


@pytest.mark.parametrize("wrong", [{"peak": 0.0}, {"target": 1.0}, {"shares": 0}, {"set_capacity": -1.0}])
def test_what_is_no_load_is_refused(wrong: dict[str, float]) -> None:
    """Zero, negative and full-to-the-brim loads are refused with a sentence."""
    with pytest.raises(Refused):
        replace(RECORD, **wrong)  # type: ignore[arg-type]


def bench_file(folder: Path) -> Path:
    path = folder / "out.json"
    commit = {
        "fixed_ms": 2.0, "per_row_us": 15.0, "most": 2_000, "stall_ms": 2.0, "opens_per_second": 50_000.0,
        "wal_bytes_per_claim": 300.0, "disk_bytes_per_claim": 250.0, "disk_bytes_per_envelope": 500.0,
    }  # fmt: skip
    cpu = dict.fromkeys(
        ("gateway", "setnode", "Postgres of the SET", "wallet", "Postgres of the wallet"), 20.0
    )  # fmt: skip
    weights = {kind: {"resident": 1_000.0} for kind in ("fresh", "full", "waiting")}
    sections = {
        "commit": commit,
        "cpu": {"us_per_open": cpu},
        "memory": {"bytes": weights},
        "payouts": {"credits_per_second": 3e4},
    }
    path.write_text(json.dumps({"machine": {"cores": 2}, "sections": sections}), encoding="utf-8")
    return path


def test_the_command_plans_from_a_bench_file(tmp_path: Path) -> None:
    """--bench and --json give one object, without measuring anything."""
    result = CliRunner().invoke(command, ["--bench", str(bench_file(tmp_path)), "--json", "--peak", "100000"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["plan"]["sets"] == 5


def test_the_command_shows_a_table(tmp_path: Path) -> None:
    """Without --json it is for people."""
    result = CliRunner().invoke(command, ["--bench", str(bench_file(tmp_path))])
    assert result.exit_code == 0, result.output
    assert "gateways" in result.output
    assert "archive of all SETs" in result.output
    assert "kept log of a SET" in result.output


def test_a_bench_file_that_lacks_figures_says_how_to_make_it(tmp_path: Path) -> None:
    """The refusal names the command."""
    path = tmp_path / "short.json"
    path.write_text('{"machine": {"cores": 2}, "sections": {}}', encoding="utf-8")
    with pytest.raises(Refused, match="--only commit"):
        measured.read(path)
    path.write_text("no json", encoding="utf-8")
    with pytest.raises(Refused, match="cannot be read"):
        measured.read(path)
