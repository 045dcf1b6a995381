"""`hongbao token`: prints a bearer token for one user, for trying things out by hand."""

import time
from pathlib import Path

import click

from gateway.identity.tokens import sign
from installation import data_folder
from installation.keys import Secrets
from runtime.reporting import data_option, json_option, print_report


@click.command("token")
@click.argument("user")
@click.option(
    "--hours", type=click.FloatRange(0.001, 8784), default=24.0, show_default=True, help="How long it is valid."
)
@data_option
@json_option
def command(*, user: str, hours: float, data: Path | None, as_json: bool) -> None:
    """Print a bearer token for USER.

    Signed with HONGBAO_TOKEN_KEY, or with the key that the first start wrote into the data folder.
    """
    issued_at = int(time.time())
    expires_at = issued_at + int(hours * 3600)
    folder = data_folder.locate(data)
    token = sign(Secrets.load(folder.secrets).key("TOKEN_KEY"), user, issued_at, expires_at)
    print_report({"user": user, "token": token, "expires_at": expires_at}, as_json=as_json, show=token)
