"""A stranger on the machine takes the ports of parts that are just restarting: the first attack, on a whole stack."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from installation.keys import Secrets
from runtime.files import write_private
from tests.faults.stack_fixtures import Crowd, running_stack
from wire.keys import GATEWAY, OPERATOR, SETNODE

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

WAIT_S = 30.0
OLD_LINK_KEY = "the key that every process of an older release knew".ljust(64, ".")
CHALLENGE = (
    b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Hongbao 3 " + b"0" * 32 + b" 2-3\r\nContent-Length: 0\r\n\r\n"
)
CLEAR_TEXT = b"R" + (8).to_bytes(4) + (3).to_bytes(4)


class Thief:
    """Listens on a port that is not his, answers each message with `answer`, and notes all that he is told."""

    def __init__(self, port: int, answer: bytes) -> None:
        self.heard: list[bytes] = []
        self._port = port
        self._answer = answer

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator["Thief"]:
        async with asyncio.timeout(WAIT_S):
            while True:
                with contextlib.suppress(OSError):
                    server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
                    break
                await asyncio.sleep(0.05)
        try:
            yield self
        finally:
            server.close()

    async def told(self, times: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(self.heard) < times:
                await asyncio.sleep(0.05)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(5):
                while data := await reader.read(65536):
                    self.heard.append(data)
                    # A request for TLS is answered as a Postgres without it does.
                    writer.write(b"N" if data[4:8] == b"\x04\xd2\x16\x2f" else self._answer)
        writer.close()


async def test_who_takes_the_port_of_a_part_learns_nothing_that_opens_another(server_folder: Path) -> None:
    """In an upgraded installation under traffic no key, password or request comes to a thief, and money stays true."""
    data = server_folder / "data"
    data.mkdir(mode=0o711)
    write_private(data / "secrets.json", {"keys": {"LINK_KEY": OLD_LINK_KEY}})
    async with running_stack(data, sets=1, servers=2) as running:
        for sender in range(4):
            await running.deposit(f"sender-{sender}", 10_000_000)
        server = next(one for one in running.access.topology().sets[0].servers if one.name == "set-1-a")
        stack = running.stack
        async with Crowd(running, seed=3) as crowd, crowd.busy():
            await crowd.until(50)
            stack.kill("set-1-a", stay_dead=True)
            async with Thief(int(server.url.rpartition(":")[2]), CHALLENGE).listening() as link_thief:
                await link_thief.told(4)
                await crowd.until(50)
            await stack.restart("set-1-a")
            port = stack.postgres("set-1").port
            stack.kill("postgres-set-1", stay_dead=True)
            async with Thief(port, CLEAR_TEXT).listening() as postgres_thief:
                await postgres_thief.told(4)
            await stack.restart("postgres-set-1")
            await crowd.until(50)
        assert crowd.contradictions == []
        report = await running.settled_audit()
        assert report.holds, report.violations
        secrets = Secrets.load(data / "secrets.json")
        content = json.loads((data / "secrets.json").read_text())
        known = [*content["keys"].values(), *content["postgres"]["set-1"].values(), OLD_LINK_KEY]
        paths = ((GATEWAY,), (GATEWAY, "set-1-a"), (OPERATOR,), (OPERATOR, "set-1-a"), (SETNODE, "set-1"))
        known += [secrets.link_key(*path).secret.hex() for path in paths]
        for heard in (b"".join(link_thief.heard), b"".join(postgres_thief.heard)):
            assert not [one for one in known if one.encode() in heard]
        assert b"Hongbao 3 gateway/set-1-a " in b"".join(link_thief.heard)
        assert b"hongbao_setnode" in b"".join(postgres_thief.heard)
        assert b"SELECT" not in b"".join(postgres_thief.heard)
