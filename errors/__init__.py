"""The one small tree of exceptions (floor 0): what every room may import and what imports nothing.

Outcomes that users meet every day (sold out, already opened) are values in `envelope.outcomes`, not exceptions.
Whatever is raised on purpose is one of three: the caller's fault, a part that is away for now, or a broken
invariant. The HTTP status and advice of each code stand in one table, `gateway.problems`.
"""


class HongbaoError(Exception):
    """Base of all errors raised on purpose.

    `code` is stable and machine-readable (snake_case); `detail` is a sentence for a person that says what to do.
    `peer`, `call` and `envelope_id` are for logs: the part that was called, the name under which it logs that call, and
    the envelope that was meant, where whoever logs the error could not know it.
    """

    peer = ""
    call = ""
    envelope_id: int | None = None

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class Refused(HongbaoError):
    """The caller's fault: nothing was changed, and the same call again will be refused again."""


class Unavailable(HongbaoError):
    """A part is away, full or too slow. The same call may succeed after `retry_after_s` seconds.

    Whether the call took effect is said by `outcome_known`: False means that it may have, and that only
    repeating it (every call is idempotent) tells.
    """

    def __init__(self, code: str, detail: str, *, retry_after_s: float = 1.0, outcome_known: bool = True) -> None:
        super().__init__(code, detail)
        self.retry_after_s = retry_after_s
        self.outcome_known = outcome_known


class InvariantBroken(HongbaoError):
    """Money or order would be wrong. Freeze the envelope, shout, never fix up silently."""

    def __init__(self, check: str, detail: str) -> None:
        super().__init__("invariant_broken", f"{check}: {detail}")
        self.check = check


def check_limit(holds: bool, sentence: str) -> None:
    """Raise InvariantBroken(`limits`) with `sentence`, the relation that must hold, unless `holds`.

    Every `limits` module calls it at import: a process with limits that contradict each other does not start.
    """
    if not holds:
        raise InvariantBroken("limits", sentence)
