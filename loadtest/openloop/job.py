"""One run of the generator in a process of its own: its job, its finding, and how both are passed.

The process is `python -m loadtest.openloop FOLDER`: it reads `job.json` there and writes `tally.json` and
`finding.json`. It runs on uvloop with the garbage collector off.
"""

import asyncio
import gc
import itertools
import random
import time
from pathlib import Path

import msgspec
import uvloop

from errors import Unavailable
from loadtest.child import run_child
from loadtest.openloop.generator import Generator
from loadtest.openloop.opens import Guests
from loadtest.openloop.schedule import Arrivals, schedule
from loadtest.tally import Tally, read
from runtime.unreadable import UNREADABLE

OPEN = "open"
GRACE_S = 60.0
"""For imports, connecting and the last answers."""
_RESULT = b'{"result":"'
_AMOUNT = b'"amount_fen":'
_OK, _BUSY = 200, 503
_numbers = itertools.count()


class Job(msgspec.Struct, frozen=True):
    """`rate` opens a second for `seconds`, from open `first` on; `rate` None: a closed loop, as fast as it goes."""

    url: str
    guests: Guests
    rate: float | None
    seconds: float
    connections: int
    arrivals: Arrivals = Arrivals.POISSON
    first: int = 0
    seed: int = 1


class Finding(msgspec.Struct, frozen=True):
    """The result of one run. `rate` is answers a second from the first intended time to the last answer."""

    sent: int
    answered: int
    unanswered: int
    seconds: float
    rate: float
    client_cpu_us: float

    @property
    def client_cpu(self) -> float:
        """The part of a core that the generator took."""
        return self.client_cpu_us * self.rate / 1e6


class AnswerTally:
    """Takes the answers of a run and fills a tally."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.tally = Tally()
        self.answered = 0
        self.last = 0.0
        self._offset = time.time() - time.perf_counter()

    def on_answer(self, number: int, status: int, body: bytes, due: float, now: float) -> None:
        """Count an answer; the envelope, user and amount of an `opened` are kept."""
        self.answered += 1
        self.last = now
        if status == _OK and body.startswith(_RESULT):
            result = body[len(_RESULT) : body.index(b'"', len(_RESULT))].decode()
            if result == "opened":
                at = body.index(_AMOUNT) + len(_AMOUNT)
                won = self._job.guests.of(self._job.first + number)
                self.tally.won.append((*won, int(body[at : body.index(b",", at)])))
        else:
            result = _code(status, body)
            if status != _BUSY or result != "busy":
                self.tally.fail(f"open answered {status} {result}")
        self.tally.record(OPEN, result, 1000 * (now - due), due + self._offset)

    def on_lost(self, _: int, reason: str) -> None:
        """Count a connection that ended."""
        self.tally.fail(f"a connection was lost: {reason}")


def _code(status: int, body: bytes) -> str:
    try:
        told = msgspec.json.decode(body)
    except UNREADABLE:
        return str(status)
    return str(told.get("code", status)) if isinstance(told, dict) else str(status)


async def work(job: Job) -> tuple[Finding, Tally]:
    """Run the job in this process."""
    answers = AnswerTally(job)
    requests = job.guests.requests(job.first)
    async with Generator(job.url, job.connections, answers.on_answer, answers.on_lost) as generator:
        began, cpu = time.perf_counter(), time.process_time()
        if job.rate is None:
            await generator.closed_loop(requests, job.seconds)
        else:
            times = schedule(job.arrivals, job.rate, job.seconds, random.Random(job.seed))
            await generator.open_loop(requests, times)
        seconds, cpu = answers.last - began, time.process_time() - cpu
        unanswered = generator.unanswered
    if unanswered:
        answers.tally.failures["no answer at all"] = unanswered
    answered = answers.answered
    finding = Finding(
        sent=generator.sent,
        answered=answered,
        unanswered=unanswered,
        seconds=seconds,
        rate=answered / seconds if answered else 0.0,
        client_cpu_us=1e6 * cpu / max(answered, 1),
    )
    return finding, answers.tally


def main(folder: Path) -> None:
    """Run the job that lies in `folder` and write its results there (the process's entry)."""
    job = msgspec.json.decode((folder / "job.json").read_bytes(), type=Job)
    gc.collect()
    gc.freeze()
    gc.disable()
    finding, tally = uvloop.run(work(job))
    tally.write(folder / "tally.json")
    (folder / "finding.json").write_bytes(msgspec.json.encode(finding))


async def run_job(job: Job, scratch: Path) -> tuple[Finding, Tally]:
    """Run the job in a process of its own; raises Unavailable `generator_failed` with its log when it fails."""
    folder = scratch / f"job-{next(_numbers)}"
    folder.mkdir(mode=0o700)
    (folder / "job.json").write_bytes(msgspec.json.encode(job))
    log = folder / "log"
    status = await asyncio.wait_for(run_child(["-m", "loadtest.openloop", str(folder)], {}, log), job.seconds + GRACE_S)
    if status != 0:
        raise Unavailable("generator_failed", f"the generator ended with {status}: {log.read_text(errors='replace')}")
    finding = msgspec.json.decode((folder / "finding.json").read_bytes(), type=Finding)
    return finding, read([folder / "tally.json"])
