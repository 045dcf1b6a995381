"""Two processes that start parts at the same time on one machine never take the same port."""

import socket
from pathlib import Path

import pytest

from machine import ports
from tests import forks


def take(number: int, told: str) -> None:
    """Reserve so many ports in a process of its own, and write them down."""
    taken = [ports.free_port() for _ in range(number)]
    Path(told).write_text(" ".join(map(str, taken)))


@pytest.fixture
def two_ports(monkeypatch: pytest.MonkeyPatch) -> range:
    """A range of two ports on which nobody listens."""
    for first in ports.port_range():
        if all(ports.is_free(one) and one not in ports._reserved for one in (first, first + 1)):
            monkeypatch.setenv(ports.RANGE, f"{first}-{first + 1}")
            return range(first, first + 2)
    raise AssertionError("no two free ports side by side")


async def test_a_port_that_another_process_has_reserved_is_not_given(two_ports: range, tmp_path: Path) -> None:
    """Nobody listens on it yet: it is held from the moment it was chosen until its part listens or its process ends."""
    told = tmp_path / "told"
    first = ports.free_port()
    ended = await forks.run(take, 1, str(told))
    assert (ended.status, ended.err) == (0, "")
    other = sum(two_ports) - first
    assert told.read_text() == str(other)
    ended = await forks.run(take, 2, str(told))
    assert ended.status == 1
    assert "no_free_port" in ended.err
    # The other process has ended, so its port is free again.
    assert ports.free_port() == other


async def test_a_hold_ends_when_its_part_listens(two_ports: range, tmp_path: Path) -> None:
    """From then on the port itself says that it is taken; when its part has stopped, another process may have it."""
    told = tmp_path / "told"
    first = ports.free_port()
    with socket.socket() as part:
        # As parts do: connections of an earlier one may still be ending at this port.
        part.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        part.bind((ports.LOOPBACK, first))
        part.listen()
        other = ports.free_port()
        assert set(ports._held) & set(two_ports) == {other}
        ended = await forks.run(take, 1, str(told))
        assert ended.status == 1
    ended = await forks.run(take, 1, str(told))
    assert told.read_text() == str(first)
