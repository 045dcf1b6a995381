"""A peer in a process of its own, which a test may stop with SIGSTOP: `python -m tests.integration.wire.echoing`.

It replies to a call with the length of its first argument, and prints its port.
"""

import asyncio
import sys
from typing import Any

from tests.integration.gateway.fixtures import FakePeer
from wire.server import Caller


def length(caller: Caller, number: int, op: int, args: list[Any]) -> None:
    del op
    caller.reply(number, len(args[0]))


async def main() -> None:
    peer = FakePeer(length)
    await peer.start()
    sys.stdout.write(f"{peer.port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
