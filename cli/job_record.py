"""Has a command that is a job note how it ended (`schema.jobs`)."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from errors import HongbaoError, Unavailable
from installation.finding import find
from schema import jobs
from schema.jobs import Job


@dataclass
class Run:
    """`failure`: why the job has failed, a sentence; "" if it has succeeded."""

    failure: str = ""


@contextlib.contextmanager
def on_record(data: Path | None, job: Job | None) -> Iterator[Run]:
    """Note how the block has ended: by the failure that it says, or by an error on purpose, which is raised again.

    None: the command is no job this time, such as an audit of one day. What cannot be noted is said on standard error;
    the job's own outcome stays what it is.
    """
    run = Run()
    try:
        yield run
    except Exception as error:
        # Of Ctrl-C nothing is noted.
        _note(data, job, error.detail if isinstance(error, HongbaoError) else f"{type(error).__name__}: {error}")
        raise
    _note(data, job, run.failure or None)


def _note(data: Path | None, job: Job | None, failure: str | None) -> None:
    if job is None:
        return
    runner = False
    try:
        access = find(data)
        runner = access.runner
        asyncio.run(jobs.note(access.wallet_dsn(), job, failure))
    except HongbaoError as error:
        if runner and isinstance(error, Unavailable):
            return  # `./run` is stopped: no alarm reads what its wallet would show
        click.echo(f"that this ran is not on record: {error.detail}", err=True)
