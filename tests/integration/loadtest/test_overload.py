"""A small overload from beginning to end: a real crowd, a real stack, figures, pictures, and the audit."""

import json
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from loadtest.overload import crowd, faults, figures, plots, run

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
FAULTS_AT = 300.0
"""The best that the faults are told, opens a second. The steps before them overload the machine; the faults come at a
part of its best, for half a minute, and how many opens that is says nothing: they are to find every part at work."""


@pytest.mark.long
async def test_a_small_overload(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """People who come in too great a number hear busy and do not wait for nothing; every share goes; money adds up."""
    monkeypatch.setattr(run, "RAMP", (0.2,))
    monkeypatch.setattr(run, "STEPS", (0.5, 1.5, 3.0))
    monkeypatch.setattr(run, "HOT_USERS", 2_000)
    monkeypatch.setattr(run, "LEAST_OPENS", 2_000.0)
    monkeypatch.setattr(run, "CALM_S", 1.0)
    monkeypatch.setattr(crowd, "AHEAD", 200)
    monkeypatch.setattr(faults, "BESIDE", 100.0)
    monkeypatch.setattr(faults, "CROWDED", 500)
    monkeypatch.setattr(faults, "FAULT_S", 2.5)
    monkeypatch.setattr(faults, "RESTART_S", 15.0)
    played = faults.run
    monkeypatch.setattr(faults, "run", lambda best, *more: played(min(best, FAULTS_AT), *more))
    said: list[str] = []
    report = await run.run(said.append, quick=True, seconds=0.5)
    assert report.holds, report.audit
    assert report.hot_taken == run.HOT_SHARES
    assert report.best > 500
    assert set(report.goodput) == {"0.5", "1.5", "3"}
    assert sum(one.seen.useful for one in report.steps) > 100
    told = {code for one in report.steps for code in one.seen.answers}
    assert told <= {"busy"}
    # Other tests take the CPU meanwhile: the bars themselves are in tests/faults (frozen parts, rolling restart).
    assert report.failover_s < 4.0
    assert report.restart.broken == 0
    assert 10 < report.gateway_mb < 400
    assert report.other_set_p99 > 0
    json.dumps(msgspec.to_builtins(report))
    assert plots.draw(report, tmp_path) == ["goodput.svg", "storm.svg"]
    assert all((tmp_path / name).stat().st_size > 1_000 for name in ("goodput.svg", "storm.svg"))
    console = Console(record=True, width=100)
    figures.show(report, console)
    assert "everything adds up" in console.export_text()
