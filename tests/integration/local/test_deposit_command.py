"""`hongbao deposit`: money comes in once per order number, and one is told when."""

import asyncio
import json
import uuid
from datetime import UTC, datetime

from click.testing import CliRunner

from cli.table import main
from tests.integration.gateway.fixtures import RealStack


async def test_a_repeat_says_when_it_was_booked(stack: RealStack) -> None:
    """The second call with a number books nothing, and names the instant of the first."""
    user, number = f"u{uuid.uuid4().hex[:12]}", f"bank-{uuid.uuid4().hex[:12]}"

    async def deposit(*words: str) -> str:
        words = ("deposit", user, "500", *words, "--data", str(stack.data))
        ran = await asyncio.to_thread(CliRunner().invoke, main, list(words))
        return ran.stdout.splitlines()[-1]

    first, again = [json.loads(await deposit("--order-no", number, "--json")) for _ in range(2)]
    assert first == again
    assert first["balance_fen"] == 500
    assert abs((datetime.now(UTC) - datetime.fromisoformat(first["booked_at"])).total_seconds()) < 300
    told = await deposit("--order-no", number)
    assert told == f"{number} was booked {first['booked_at']}; {user} has 5.00 yuan now"
    assert await deposit() == f"{user} has 10.00 yuan now"
