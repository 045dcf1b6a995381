"""Where gateways listen: one address for clients, and a port of its own for each of several."""

from pathlib import Path

import pytest

from local.config import StackConfig, ports_needed
from local.gateway_ports import gateway_ports
from machine.ports import free_port


def test_one_gateway_has_its_own_port_alone(tmp_path: Path) -> None:
    """It listens at --port."""
    port = free_port()
    assert gateway_ports(StackConfig(tmp_path, gateways=1, port=port)) == ([port], None)


def test_several_share_a_port_and_have_one_each_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share --port; their own follow it."""
    monkeypatch.setattr("machine.ports.bind_error", lambda *_: None)
    assert gateway_ports(StackConfig(tmp_path, gateways=3, port=8080)) == ([8081, 8082, 8083], 8080)


def test_any_free_ports(tmp_path: Path) -> None:
    """Port 0: all of them are different."""
    own, shared = gateway_ports(StackConfig(tmp_path, gateways=3, port=0))
    assert len({shared, *own}) == ports_needed(3) == 4
