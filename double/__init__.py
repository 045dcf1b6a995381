"""A whole hongbao in one process and in memory, for the tests of programs that use the client.

    async with Double() as double:
        double.deposit("alice", 1_000)
        envelope = await double.user("alice").create(total_fen=888, count=3)
        await double.advance(timedelta(hours=24))              # what is left goes back
        assert await double.user("alice").balance_fen() == 1_000

What lives here: `double` (starts the rest, moves the clock), `ledger` (the money), `memory_set` (a SET whose actors
commit to nothing), `clock`. May import: `gateway`, `setnode`, `client` and what they may. The gateway is the real one,
with its HTTP, its checks and its refusals, and so are the rules, the actors and what they show: what a program sees is
what an installation answers. What is not there: Postgres, memcached, whatever is lost when a process ends. Promise,
held by tests/integration/client: the double passes the tests of the client that a running installation passes.
"""

from double.double import Double

__all__ = ["Double"]
