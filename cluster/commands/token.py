"""`hongbao token`: a bearer token for one user, for trying things out by hand."""

import time
from pathlib import Path

import click

from cluster.machine import datafolder
from cluster.machine.account import server_account
from cluster.machine.keys import Secrets
from cluster.reporting import data_option, json_option, report
from gateway.identity.tokens import sign


@click.command("token")
@click.argument("user")
@click.option(
    "--hours", type=click.FloatRange(0.001, 8784), default=24.0, show_default=True, help="How long it is good for."
)
@data_option
@json_option
def command(*, user: str, hours: float, data: Path | None, as_json: bool) -> None:
    """Print a bearer token that says its bearer is USER.

    Signed with HONGBAO_TOKEN_KEY, or the key that the first start put into the data folder.
    """
    issued_at = int(time.time())
    expires_at = issued_at + int(hours * 3600)
    folder = datafolder.choose(data, server_account())
    token = sign(Secrets.load(folder.secrets).key("TOKEN_KEY"), user, issued_at, expires_at)
    report({"user": user, "token": token, "expires_at": expires_at}, as_json=as_json, show=token)
