"""What commands print: tables at any width, help texts, counts with their nouns, and the table of commands."""

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import util
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.table import Column, Table

from cli.commands import (
    archive,
    backup_text,
    dba,
    events,
    events_text,
    logs_text,
    payout,
    retention,
    rotate_text,
    status,
    topology,
)
from cli.table import COMMANDS, main
from events.event import Event
from events.webhook.addresses import PRIVATE
from inspection.hot import Hot
from local.status import PartStatus, SetStatus, Status
from retention.held import Held
from runtime import wording
from runtime.reporting import print_output, print_report
from runtime.tables import print_table
from runtime.wording import counted, duration
from sharding.topology import ServerSpec, SetSpec, Topology
from sharding.topology.service import out_of_service

ENVELOPE, TABLE = "2611210123456789073", "db_07.claim_3_21"
URL = "http://127.0.0.1:18123"
PATH = "/var/lib/hongbao-backups/set-1/base-2026-11-21T101500Z"
LONG = "refused-by-the-provider because the receiver has closed their account there and nobody can say since when"

HOT = [Hot("set-1", "set-1-a", ENVELOPE, TABLE, 12_345, 678, 90)]
BASES = [{"path": PATH, "taken_at": "2026-11-21T10:15:00+00:00", "missing": "000000010000000000000042"}]
SHOWN = {
    "version": 3, "slots": 100, "away": ["set-2"],
    "sets": [
        {
            "name": "set-1", "weight": 1, "paused": True, "databases": ["db_07"],
            "servers": [{"name": "set-1-a", "url": URL, "drained": True}],
        }
    ],
    "moves": [
        {
            "database": "db_07", "kind": "by_time", "from": "set-1", "to": "set-2", "valid_from": "2026-11-21",
            "step": "copied", "next": "step copied is done; run: topology move db_07 to continue",
        }
    ],
}  # fmt: skip
STUCK = [
    {
        "set": "set-1", "envelope_id": ENVELOPE, "seq": 7, "receiver": "u" * 64, "amount_fen": 123, "attempts": 9,
        "stuck_at": "2026-11-21T10:15:00+00:00", "reason": LONG,
    }
]  # fmt: skip
ARCHIVED = [{"day": "2026-11-21", "database": "db_07", "code": "archive_damaged", "how": "compared", "detail": LONG}]
STATUS = Status(
    4711, "2026-11-21T10:15:00+00:00", URL,
    [
        PartStatus("postgres-set-1", "127.0.0.1:24007", 4711, "2026-11-21T10:15:00+00:00", 3, answers=True),
        PartStatus("memcached", "/var/lib/hongbao-data/memcached/socket", 4712, "2026-11-21T10:15:00+00:00", 0, False),
    ],
    [SetStatus("set-1", paused=False, drained=[], days_ahead=10)],
)  # fmt: skip
PLANNED = {
    "set": "set-1", "error": None, "days_ahead": 10, "alarm": "ok", "coming": [],
    "days": [
        {
            "date": "2026-11-21", "state": "hot", "action": "rotate", "why": LONG, "claims_about": 12_345,
            "bytes": 5_200_000, "names_needed_from": "2026-12-10", "obstacles": [],
        }
    ],
}  # fmt: skip

SINKS = [
    {
        "name": "chat-of-the-company", "kind": "webhook", "url": "https://chat.example.com/hooks/hongbao", "types": [],
        "batch": 1, "state": "disabled", "behind_s": 86_400.0, "delivered": 1_234_567, "retried": 3, "dead": 12,
        "needs": [f"set-1: disabled 2026-11-21 10:15: {LONG}; then: ./run events resume chat-of-the-company"],
    }
]  # fmt: skip
DEAD = [
    {
        "sink": "chat-of-the-company", "set": "set-1", "event_id": f"{ENVELOPE}.opened.7", "tries": 9,
        "since": "2026-11-21T10:15:00+00:00", "reason": LONG, "event": {},
    }
]  # fmt: skip


TABLES: dict[str, tuple[Any, Any, list[str]]] = {
    "events list": (
        lambda console: print_table(console, events_text.sinks_table(SINKS)), None,
        ["chat-of-the-company", "https://chat.example.com/hooks/hongbao", "1,234,567", "86,400 s"],
    ),
    "events dead": (lambda console: print_table(console, events_text.dead_table(DEAD)), None, [f"{ENVELOPE}.opened.7"]),
    "dba hot": (lambda console: dba.print_table(console, dba._hot(HOT)), None, [ENVELOPE, TABLE, "set-1-a", "12345"]),
    "backup list": (
        backup_text.show_backups, [{"server": "set-1", "bases": BASES, "log": "kept", "behind_bytes": 0}],
        ["set-1", PATH, "000000010000000000000042"],
    ),
    "topology show": (topology._show, SHOWN, ["set-1", f"set-1-a {URL}", "db_07", "2026-11-21"]),
    "payout stuck": (lambda console: payout.print_table(console, payout._table(STUCK)), None, [ENVELOPE, "u" * 64]),
    "status": (status._show, STATUS, ["postgres-set-1", "127.0.0.1:24007", "/var/lib/hongbao-data/memcached/socket"]),
    "rotate plan": (rotate_text.show_plan, [PLANNED], ["2026-11-21", "2026-12-10", "12,345"]),
    "archive verify": (archive._show_verified, ARCHIVED, ["2026-11-21", "db_07", "archive_damaged"]),
}  # fmt: skip


def printed(show: Any, found: Any, console: Console) -> None:
    show(console) if found is None else show(found, console)


@pytest.mark.parametrize("width", [20, 60, 200])
@pytest.mark.parametrize("name", TABLES)
def test_no_identifier_is_cut_on_a_narrow_terminal(name: str, width: int) -> None:
    """Each identifier stands in one piece in the output, however narrow the terminal; nothing ends in an ellipsis."""
    show, found, identifiers = TABLES[name]
    output = io.StringIO()
    printed(
        show, found, Console(file=output, force_terminal=True, width=width, color_system=None, legacy_windows=False)
    )
    text = output.getvalue()
    assert [one for one in identifiers if one not in text] == []
    assert "…" not in text


@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits_sixty_columns(name: str) -> None:
    """Where columns do not fit beside each other a row takes several lines; only a longer word is longer than 60."""
    show, found, _ = TABLES[name]
    output = io.StringIO()
    printed(show, found, Console(file=output, force_terminal=True, width=60, color_system=None, legacy_windows=False))
    wide = [line.rstrip() for line in output.getvalue().splitlines() if len(line.rstrip()) > 60]
    assert [line for line in wide if len(line.split()) > 1] == []


def test_a_row_of_a_common_table_is_a_line_of_eighty_columns() -> None:
    """A part of `status` takes one line however long a socket's path is; `retention show` folds its texts alone."""
    output = io.StringIO()
    status._show(STATUS, Console(file=output, width=80, color_system=None))
    lines = [line.rstrip() for line in output.getvalue().splitlines()]
    assert "part            answers  address          process  up for" in lines[1]
    assert lines[1].endswith("restarts")
    assert lines[3].startswith("memcached       no       socket           4712")
    assert lines[4] == "socket of memcached: /var/lib/hongbao-data/memcached/socket"
    kept = Held("logs of parts that are gone", "logs", "30 days after the last line", items=1_234, bytes=123_400_000)
    oldest = datetime(2025, 11, 21, tzinfo=UTC)
    past = Held("journals", "journal", "400 days", items=9, bytes=1, oldest=oldest, past=9, past_bytes=5_600_000)
    for found, last in (([kept], "rule"), ([kept, past], "past it")):
        output = io.StringIO()
        retention._show(found, Console(file=output, width=80, color_system=None), removed=False)
        (head, *rest) = [line.rstrip() for line in output.getvalue().splitlines()]
        assert head.startswith("kind ")
        assert head.endswith(last)
        assert all(len(line) <= 80 for line in rest)
    assert "9 (5.6 MB)" in output.getvalue()


def test_a_log_for_people() -> None:
    """Lines of JSON become time, level, event and the rest, however the file's pieces cut them; others stay."""
    first = '{"room":"gateway","away":["set-1"],"event":"servers","process":"gateway","level":"info",'
    chunks = [first, '"timestamp":"2026-11-27T17:39:26.131001Z"}\n2026-11-27 LOG: ready\n{"ev', 'ent":"a","why":"b c",']
    more = ['"timestamp":"2026-11-27T17:39:27+00:00","exception":"Traceback\\n  x","level":"error"}\n[1]\nunfinished']
    assert list(logs_text.lines(chunks + more)) == [
        '2026-11-27 17:39:26 UTC info    servers room=gateway away=["set-1"]',
        "2026-11-27 LOG: ready",
        '2026-11-27 17:39:27 UTC error   a why="b c"\nTraceback\n  x',
        "[1]",
    ]


def test_a_folded_row_keeps_its_columns_in_place() -> None:
    """Each row has the same lines, the header too: a column is found at the same place in all of them."""
    table = Table("name", Column("size", justify="right"), "what it is for", box=None)
    table.add_row("a" * 20, "7", "a text of some words")
    table.add_row("b", "1234", "[green]short[/]")
    output = io.StringIO()
    print_table(Console(file=output, width=30, color_system=None), table)
    assert [line.rstrip() for line in output.getvalue().splitlines()] == [
        "name                  size", "  what it is for",
        f"{'a' * 20}     7", "  a text of some words",
        "b                     1234", "  short",
    ]  # fmt: skip


NO_REPORT = {
    ("up",), ("serve",), ("ops",), ("logs",), ("psql",), ("completion",), ("backup", "log"), ("rotate",),
    ("hosts", "up"),
}  # fmt: skip
"""What runs until it is ended, or whose output is a log, a program's or a script. `rotate` alone is the daemon."""


def test_every_report_has_json() -> None:
    """Each command of the table and each subcommand takes --json, but those that report nothing."""
    lacking = set()
    for path in commands(main):
        command: click.Command = main
        for name in path:
            found = command.get_command(click.Context(command), name)  # type: ignore[attr-defined]
            command = found
        runs = not isinstance(command, click.Group) or command.invoke_without_command
        if runs and not any("--json" in one.opts for one in command.params):
            lacking.add(path)
    assert lacking == NO_REPORT


@pytest.mark.parametrize("name", TABLES)
def test_a_pipe_has_no_width(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal a row is one line, whatever COLUMNS says: `… | grep ID` finds the whole row."""
    monkeypatch.setenv("COLUMNS", "40")
    show, found, identifiers = TABLES[name]
    print_output(lambda console: printed(show, found, console))
    rows = capsys.readouterr().out.splitlines()
    assert any(all(one in row for one in identifiers[:2]) for row in rows), rows


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def test_what_is_out_of_service_is_said() -> None:
    """`topology show` marks a paused SET and a drained server; `dba` and `up` say it with the way back."""
    output = io.StringIO()
    topology._show(SHOWN, Console(file=output, width=200, color_system=None))
    assert "set-1 paused" in output.getvalue()
    assert f"set-1-a {URL} drained" in output.getvalue()
    servers = (ServerSpec("set-1-a", URL, drained=True), ServerSpec("set-1-b", URL))
    spec = Topology(1, 100, (SetSpec("set-1", servers, paused=True), SetSpec("set-2", servers[1:])), URL)
    assert out_of_service(spec) == {
        "set-1": "set-1 is paused: its users get 503 (dba resume set-1); set-1-a is drained (dba undrain set-1-a)"
    }


def test_a_help_text_is_text() -> None:
    """Each command and subcommand has a help text of its own, without a backslash or a backspace in it."""
    paths = list(commands(main))
    assert {("query",), ("rotate", "drill"), ("bench",)} <= set(paths)
    for path in paths:
        shown = CliRunner().invoke(main, [*path, "--help"])
        assert shown.exit_code == 0, (path, shown.output)
        assert re.search(r"\n\n  [A-Z]", shown.output), path
        assert not {"\\", "\b"} & set(shown.output), path


def test_the_table_names_where_each_command_is_written() -> None:
    """Each entry point is a module with a `command`; no two commands have the same one."""
    entries = [entry for section in COMMANDS.values() for entry in section.values()]
    assert len({entry.module for entry in entries}) == len(entries)
    assert [entry.module for entry in entries if util.find_spec(entry.module) is None] == []


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12_345, "12,345 rows")])
def test_a_count_agrees_with_its_noun(number: int, text: str) -> None:
    """One is singular, everything else plural."""
    assert counted(number, "row") == text


def test_a_line_of_tail_has_what_is_zero() -> None:
    """That no share is left is news; an empty greeting is none."""
    event = Event(
        int(ENVELOPE), "1", "share.opened",
        b'{"time":"2026-11-21T10:15:00.123Z","data":{"envelope_id":"1","seq":0,"user":"bob","left":0,"named":false,'
        b'"greeting":"","opened_at":"x"}}',
    )  # fmt: skip
    assert events._line("set-1", event).split()[4:] == ["share.opened", "seq=0", "user=bob", "left=0"]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("the receiver answered 401 Unauthorized", "events secret chat"),
        ("the receiver answered 404 Not Found", "path"),
        ("the receiver answered 500 Internal Server Error", "sink.test"),
        ("the receiver was not reached: [Errno 111] Connect call failed ('127.0.0.1', 500)", "does it run"),
        (f"the receiver was not reached: localhost resolves to 127.0.0.1: {PRIVATE}", "add it with --private"),
    ],
)
def test_a_test_that_is_not_accepted_says_where_to_look(reason: str, said: str) -> None:
    """By what the receiver answered, or that nobody did."""
    assert said in events_text.advice("chat", reason)
    assert not events_text.advice("chat", "the receiver answered 410 Gone: it wants no events any more")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (86_400, "1 day"),
        (183_600, "2 days 3 hours"),
        (3_662, "1 hour 1 minute 2 seconds"),
    ],
)
def test_a_duration_in_words(seconds: int, said: str) -> None:
    """Without the units of which there are none."""
    assert duration(seconds) == said


def test_commands_are_named_as_they_are_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where `hongbao` is installed there is no ./run; JSON is left as it is."""
    text = "then ./run events resume app"
    assert wording.RUNNER.exists()
    for runner, said in ((tmp_path / "run", "then hongbao events resume app"), (wording.RUNNER, text)):
        monkeypatch.setattr(wording, "RUNNER", runner)
        print_report({"do": text}, as_json=False, show=text)
        print_report({"do": text}, as_json=False, show=lambda console: console.print(text))
        print_report({"do": text}, as_json=True, show=text)
        assert capsys.readouterr().out == f'{said}\n{said}\n{{"do": "{text}"}}\n'
