"""The API against its own OpenAPI document: schemathesis makes the requests, a real stack answers."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine.checkout import CHECKOUT
from tests.integration.gateway.fixtures import RealStack

EXAMPLES = 15


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.timeout(300)
async def test_the_api_survives_a_fuzzer(stack: RealStack, tmp_path: Path) -> None:
    """Whatever a fuzzer sends: no 5xx, documented statuses, content types and codes, bodies that fit their schemas.

    Left out is the check that everything the schemas allow is accepted: what a schema cannot say (a start in the
    future, a cursor of ours, shares up to the sum) is refused with 422, which the document says.
    """
    await stack.deposit("fuzzer", 10_000_000_000)
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{stack.gateway_url}/openapi.json",
        "--header", f"Authorization: Bearer {stack.token('fuzzer')}",
        "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", str(EXAMPLES),
        "--exclude-checks", "positive_data_acceptance",
        "--workers", "1", "--seed", "1", "--request-timeout", "20", "--no-color",
    ]  # fmt: skip
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "SCHEMATHESIS_HOOKS": "tests.integration.gateway.fuzz_hooks"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " generated" in done.stdout
