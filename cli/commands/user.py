"""`hongbao user export` and `user forget`: what is held of one user, and how their name goes."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import click

from errors import Refused
from installation.finding import find_current
from runtime.files import private_text
from runtime.login import login
from runtime.reporting import data_option, json_option, print_output, print_report
from runtime.wording import counted
from users import documents
from users.export import Export
from users.forget import Forgotten, Outlook, check, forget
from users.installed import installed
from users.journal import Operator
from users.progress import Progress


@click.group("user")
def command() -> None:
    """Answer for one user: export what is held of them, or take their name out of everything that is kept."""


@command.command("export")
@click.argument("user")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to FILE.", metavar="FILE")
@data_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a JSON object a line.")
def export(*, user: str, output: Path | None, data: Path | None, as_json: bool) -> None:
    """Write everything that is held under the ID USER, hot and archived: a JSON object a line, `sums` last.

    Account, transfers, envelopes sent (headers: never a seed, a password's MAC or a seal), shares won, invitations,
    daily places, stuck payouts. Beside any traffic; what changes after the beginning is not in it. Exit status 1 if
    there is no such user, or if the sums of wallet and SETs do not add up: then it says so, and the last record, too.
    With -o nothing stands under FILE before all is written; only its owner can read it.
    """
    at = installed(find_current(data))
    made = Export(at, user, progress=Progress(_say))
    write = documents.write_document if as_json else documents.write_lines
    if output is None:
        print_output(lambda _: asyncio.run(write(made.records(), sys.stdout)))
    else:
        with _private(output) as file:
            asyncio.run(write(made.records(), file))
        click.echo(f"{counted(made.sums.records, 'record')} of {user} are in {output}", err=True)
    if wrong := made.sums.differences():
        raise Refused("sums_differ", f"the sums do not add up: {'; '.join(wrong)}; run the audit")


@command.command("forget")
@click.argument("user")
@click.option("--reason", default="asked by the user", show_default=True, help="For the logs; without the user's ID.")
@click.option("--check", "only_check", is_flag=True, help="Print what would be changed, and change nothing.")
@click.option("--leave-balance", is_flag=True, help="Also with a balance: it stays where nobody can use it any more.")
@click.option("--yes", is_flag=True, help="Do not ask for the ID to be typed again.")
@data_option
@json_option
def forget_command(
    *, user: str, reason: str, only_check: bool, leave_balance: bool, yes: bool, data: Path | None, as_json: bool
) -> None:
    """Replace the ID USER by a random pseudonym in all databases and archives; every fen stays where it is.

    Greetings that the user wrote are blanked. First have no more tokens made for the user: what they do meanwhile, or
    afterwards, is done by a new account of the same name, which begins empty. Refused, and nothing is changed, while
    the user has money, or money is on its way to or from them, or a database is moved. Rotations and moves wait for the
    end. After a kill, run it again: it finishes. Base copies and logs keep the name until they expire.
    """
    at = installed(find_current(data))
    progress = Progress(_say)
    if only_check:
        outlook = asyncio.run(check(at, user, leave_balance=leave_balance, progress=progress))
        print_report(_outlook_json(user, outlook), as_json=as_json, show=_outlook_text(user, outlook))
        sys.exit(1 if outlook.in_the_way else 0)
    by = Operator(login(), reason)
    confirm = _confirmed(user, yes=yes)
    today = find_current(data).today()
    done = asyncio.run(forget(at, user, by, today, leave_balance=leave_balance, confirm=confirm, progress=progress))
    print_report(
        {
            "user": user,
            "pseudonym": done.pseudonym,
            "changed": done.changed,
            "anew": done.of_another,
            "words": done.words,
        },
        as_json=as_json,
        show=_done_text(user, done),
    )


def _confirmed(user: str, *, yes: bool) -> Callable[[Outlook], None]:
    def confirm(outlook: Outlook) -> None:
        if yes:
            return
        click.echo(_outlook_text(user, outlook), err=True)
        if (
            click.prompt("This cannot be undone. Type the user's ID again", default="", show_default=False, err=True)
            != user
        ):
            raise Refused("not_confirmed", "that is another ID; nothing was changed")

    return confirm


def _outlook_json(user: str, outlook: Outlook) -> dict[str, Any]:
    found = outlook.found
    return {
        "user": user,
        "ready": not outlook.in_the_way,
        "in_the_way": outlook.in_the_way,
        "resumes": outlook.resumes,
        "balance_fen": outlook.balance_fen,
        "rows": found.rows,
        "tables": [{"set": name, "day": str(day), **counts._asdict()} for (name, day), counts in found.tables.items()],
        "archives": [
            {"day": str(one.day), "database": f"db_{one.xx:02d}", **counts._asdict()} for one, counts in found.archives
        ],
        "daily_places": found.places,
        "set_apart": sum(found.set_apart.values()),
    }


def _outlook_text(user: str, outlook: Outlook) -> str:
    found = outlook.found
    lines = [
        f"the name {user} stands in {counted(found.rows, 'row')}" + (", and was begun to be replaced" * outlook.resumes)
    ]
    for (name, day), counts in found.tables.items():
        lines.append(f"  {name}, {day}: {_counts(counts)}")
    lines += [f"  {one}: {_counts(counts)}, written anew" for one, counts in found.archives]
    if found.places:
        lines.append(f"  wallet: {counted(found.places, 'daily place')}")
    if found.set_apart:
        lines.append(f"  set apart: {counted(sum(found.set_apart.values()), 'fund')}")
    if outlook.balance_fen is not None:
        lines.append(f"  wallet: the account, with {outlook.balance_fen} fen")
    lines += [f"in the way: {one}" for one in outlook.in_the_way]
    return "\n".join(lines)


def _counts(counts: Any) -> str:
    return ", ".join(
        counted(number, noun) for number, noun in zip(counts, ("header", "claim", "guest"), strict=True) if number
    )


def _done_text(user: str, done: Forgotten) -> str:
    lines = [f"{user} is {done.pseudonym} now, in {counted(done.changed, 'row')}; all money is where it was"]
    if done.of_another:
        lines.append(
            f"{counted(done.of_another, 'row')} are of a new account that began under the name meanwhile: "
            "stop its tokens"
        )
    lines += [f"the name stands in words that somebody wrote, and that stay: {one}" for one in done.words]
    lines.append("base copies and logs keep the name until they expire (docs/operations/users.md)")
    return "\n".join(lines)


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)


@contextlib.contextmanager
def _private(path: Path) -> Iterator[TextIO]:
    """Give a file that only its owner can read and that gets its name at the end of the block, if that succeeds."""
    try:
        with private_text(path) as file:
            yield file
    except OSError as error:
        raise Refused("not_written", f"{path} was not written: {error.strerror}") from error
