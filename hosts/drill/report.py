"""The drill's table, which fits 80 columns, and its figures against their bars."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from hosts.drill.proof import Found
from hosts.drill.run import Outcome
from runtime.tables import print_table

FAILOVER_MOST_S = 25.0
OTHER_P99_MOST = 1.5


def report_of(outcomes: Sequence[Outcome], last: Found, acknowledged: int) -> dict[str, Any]:
    """Return what `--json` prints. A figure of a step that was not taken is None."""
    by_letter = {one.step.letter: one for one in outcomes}
    lost, cut, roll, restored = (by_letter.get(letter) for letter in "abhj")
    failed = None if roll is None else sum(roll.failed.values()) + roll.unanswered
    ratios = [one.other_p99 for one in (lost, cut) if one is not None and one.other_p99 is not None]
    found = {
        "acknowledged": acknowledged,
        "missing": sum(one.found.missing for one in outcomes) + last.missing,
        "wrong": sum(one.found.wrong for one in outcomes) + last.wrong,
        "unanswered": sum(one.unanswered for one in outcomes),
        "failover_s": None if lost is None else round(lost.silence_s, 2),
        "partition_s": None if cut is None else round(cut.silence_s, 2),
        "other_set_p99": round(max(ratios), 2) if ratios else None,
        "upgrade_failed": failed,
        "restore_lost": None if restored is None else restored.found.missing,
        "audit_violations": sum(one.found.audit_violations for one in outcomes) + last.audit_violations,
        "steps": [one.as_json() for one in outcomes],
    }
    missed = list(_missed(found, outcomes))
    return {**found, "missed": missed, "holds": not missed}


def _missed(found: dict[str, Any], outcomes: Sequence[Outcome]) -> list[str]:
    """Return the bars that were not reached, each as a sentence."""
    must_be_none = ("missing", "wrong", "unanswered", "upgrade_failed", "restore_lost", "audit_violations")
    missed = [f"{name} is {found[name]}, and must be 0" for name in must_be_none if found[name]]
    times = {name: found[name] for name in ("failover_s", "partition_s") if found[name] is not None}
    late = [name for name, seconds in times.items() if seconds > FAILOVER_MOST_S]
    missed += [f"{name} is {times[name]:g}, and may be {FAILOVER_MOST_S:g}" for name in late]
    return [*missed, *(f"step {one.step.letter} did not end well: {one.error}" for one in outcomes if one.error)]


def show(found: dict[str, Any], console: Console) -> None:
    """Print a line for each step, 80 characters wide, then what all of them came to."""
    names = ("opens", "silent", "other", "calm", "fault", "again", "differs")
    table = Table("step", *(Column(name, justify="right") for name in names), box=SIMPLE)
    for one in found["steps"]:
        table.add_row(
            f"{one['step']} {one['about']}",
            str(one["acknowledged"]),
            f"{one['silence_s']:.1f}",
            f"{one['other_silence_s']:.1f}",
            _ms(one["calm_p99_ms"]),
            _ms(one["other_p99_ms"]),
            str(sum(one["failed_attempts"].values())),
            str(one["missing"] + one["wrong"] + one["audit_violations"] + one["unanswered"]),
        )
    print_table(console, table)
    console.print(
        "silent, other: seconds without a share won, in the fault's SET and elsewhere\n"
        "calm, fault: 99 of 100 users elsewhere waited no longer, ms; again: repeats",
        highlight=False,
    )
    for one in found["steps"]:
        console.print(f"{one['step']} alarms: {', '.join(one['alarms']) or 'none'}", highlight=False)
    console.print(
        f"{found['acknowledged']:,} opens acknowledged; {found['missing']} missing, {found['wrong']} wrong,\n"
        f"{found['audit_violations']} violations of the audit, {found['unanswered']} users without an answer",
        highlight=False,
    )
    for one in found["steps"]:
        for sentence in one["sentences"]:
            console.print(f"[red]{one['step']}[/red] {sentence}", highlight=False)
    for sentence in found["missed"]:
        console.print(f"[red]fails[/red] {sentence}", highlight=False)
    if found["holds"]:
        console.print("[green]everything that was acknowledged is there[/green]")


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
