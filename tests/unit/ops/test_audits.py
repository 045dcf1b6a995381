"""An audit that an operator begins at the page is on record as that of the command is."""

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from ops import audits as audits_module
from ops.audits import Audits


async def test_one_that_fails_by_a_fault_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str | None] = []

    async def note(_dsn: str, _job: str, failure: str | None) -> None:
        noted.append(failure)

    async def audit() -> NoReturn:
        raise RuntimeError("a fault")

    monkeypatch.setattr(audits_module.jobs, "note", note)
    access: Any = SimpleNamespace(audit=audit, wallet_dsn=lambda: "")
    audits = Audits(access)
    audits.begin()
    assert audits._task is not None
    await audits._task
    assert noted == ["RuntimeError: a fault"]
