"""Loopback ports: the range that HONGBAO_PORTS names, and that no port is given twice."""

import socket

import pytest

from errors import Refused, Unavailable
from machine import ports


@pytest.fixture(autouse=True)
def _nothing_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_reserved", set())


@pytest.mark.parametrize(
    "text",
    ["", "-", "18000", "18000-", "-18000", "19999-18000", "0-100", "18000-65536", "a-b", "1-2-3", "18000 - 19999"],
)
def test_what_is_not_a_range_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Any value but `first-last` with 0 < first <= last < 65536 is refused, and the refusal shows the form."""
    monkeypatch.setenv(ports.RANGE, text)
    with pytest.raises(Refused, match="18000-19999") as caught:
        ports.free_port()
    assert caught.value.code == "ports_invalid"


def test_a_port_is_from_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends belong to the range; without the setting it is LOWEST up to HIGHEST, HIGHEST excluded."""
    monkeypatch.setenv(ports.RANGE, "18500-18519")
    assert ports.port_range() == range(18_500, 18_520)
    assert {ports.free_port() for _ in range(5)} <= set(range(18_500, 18_520))
    monkeypatch.setenv(ports.RANGE, "65535-65535")
    assert ports.port_range() == range(65_535, 65_536)
    monkeypatch.delenv(ports.RANGE)
    assert ports.port_range() == range(ports.LOWEST, ports.HIGHEST)


def test_a_port_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of one free port gives it once, then says which range has none left."""
    with socket.socket() as probe:
        probe.bind((ports.LOOPBACK, 0))
        port = probe.getsockname()[1]
        monkeypatch.setenv(ports.RANGE, f"{port}-{port}")
        with pytest.raises(Unavailable, match=f"from {port} to {port}"):
            ports.free_port()
    assert ports.free_port() == port
    assert not ports.reserve(port)
    with pytest.raises(Unavailable) as caught:
        ports.free_port()
    assert caught.value.code == "no_free_port"
