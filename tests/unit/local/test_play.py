"""Users to play with: where there are any, and that they get their money once."""

from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner

from cli.commands import up
from cli.table import main
from gateway.handlers.play import read_play_users
from local import play


@pytest.mark.parametrize(
    ("host", "yes"),
    [
        ("127.0.0.1", True), ("127.0.0.5", True), ("::1", True), ("[::1]", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("192.168.1.5", False), ("10.0.0.1", False), ("example.com", False),
        ("localhost.example.com", False), ("", False),
    ],
)  # fmt: skip
def test_only_on_loopback(monkeypatch, host, yes):
    """`./run` names users only where nobody but this machine reaches the gateways."""
    monkeypatch.delenv(play.SETTING, raising=False)
    seen = []

    async def serve(config):
        seen.append(config)
        return 0

    monkeypatch.setattr(up, "_serve", serve)
    assert CliRunner().invoke(main, ["up", "--host", host]).exit_code == 0
    assert seen[0].play_users == (play.NAMES if yes else ())


@pytest.mark.parametrize("given", ["", "zoe"])
def test_an_operator_has_decided(monkeypatch, given):
    """A setting that is given, also an empty one, is what the gateways have."""
    monkeypatch.setenv(play.SETTING, given)
    assert play.users_at("127.0.0.1") == ()


def test_the_names_are_legal():
    """The gateway takes the setting as it is written here: twenty users."""
    assert read_play_users(",".join(play.NAMES)) == play.NAMES
    assert len(play.NAMES) == 20


async def test_money_is_given_under_the_same_order_number_each_time():
    """One order number for each user, the same at every start: the wallet deposits once."""
    asked = []

    class Wallet:
        async def deposit(self, order_no, user, fen):
            asked.append((order_no, user, fen))

    class Access:
        @asynccontextmanager
        async def wallet(self):
            yield Wallet()

    await play.give_money(Access(), ("alice", "bob"))
    await play.give_money(Access(), ("alice", "bob"))
    assert sorted(asked) == sorted(2 * [("play-1-alice", "alice", 20_000), ("play-1-bob", "bob", 20_000)])
