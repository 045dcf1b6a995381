"""`hongbao token`: prints bearer tokens of users, for trying things out by hand."""

from pathlib import Path

import click

from gateway.identity.tokens import sign
from installation import data_folder
from installation.finding import secrets_of
from installation.sandbox import clock_of
from runtime.reporting import data_option, json_option, print_report


@click.command("token")
@click.argument("users", nargs=-1, required=True, metavar="USER...")
@click.option(
    "--hours", type=click.FloatRange(0.001, 8784), default=24.0, show_default=True, help="How long it is valid."
)
@data_option
@json_option
def command(*, users: tuple[str, ...], hours: float, data: Path | None, as_json: bool) -> None:
    """Print a bearer token for USER; for several users, a line for each: the user, a blank, the token.

    Signed with HONGBAO_TOKEN_KEY, or with the key that the first start wrote into the data folder. If one name is no
    user's, nothing is printed. In a sandbox it is valid by the sandbox's clock.
    """
    folder = data_folder.locate(data)
    issued_at = clock_of(folder).now_ms() // 1000
    expires_at = issued_at + int(hours * 3600)
    secrets = secrets_of(data)
    key = secrets.key("TOKEN_KEY")
    if "TOKEN_KEY" in secrets.replaced():
        text = (
            f"signed with HONGBAO_TOKEN_KEY of this terminal, which is not the key of {folder.path}: a gateway that was"
        )
        click.echo(f"{text} started without it refuses it (unset HONGBAO_TOKEN_KEY)", err=True)
    made = [{"user": user, "token": sign(key, user, issued_at, expires_at), "expires_at": expires_at} for user in users]
    if len(made) == 1:
        print_report(made[0], as_json=as_json, show=str(made[0]["token"]))
    else:
        lines = "\n".join(f"{one['user']} {one['token']}" for one in made)
        print_report({"tokens": made}, as_json=as_json, show=lines)
