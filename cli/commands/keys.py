"""`hongbao keys`: prints the keys of one process, for operators who start processes by other means than `./run`."""

from pathlib import Path

import click

from errors import Refused
from installation.access import SUPERUSER
from installation.finding import secrets_of
from installation.keys import OPS, Secrets
from runtime.reporting import data_option, json_option, print_report
from wire.keys import GATEWAY, SETNODE, WALLET


@click.command("keys")
@click.argument("kind", type=click.Choice([GATEWAY, SETNODE, WALLET, OPS, SUPERUSER]))
@click.option("--server", help="The setnode's name in the topology file.")
@click.option("--set", "set_name", help="The name of its SET; of `postgres` also wallet.")
@data_option
@json_option
def command(*, kind: str, server: str | None, set_name: str | None, data: Path | None, as_json: bool) -> None:
    """Print the keys of one process of this KIND as NAME=VALUE lines, a file for systemd's EnvironmentFile=.

    Those of `ops` are what operators log in with at its page: HONGBAO_OPS_KEY to act, HONGBAO_OPS_VIEW_KEY to look.

    That of `postgres` is the password that `installation init` has made for the superuser of one cluster, for whoever
    makes that cluster: PGPASSWORD=VALUE.

    Give each process its own and no others; docs/security.md says which key opens what. Passwords of other roles are
    not among them. Nothing is written.
    """
    if kind == SETNODE and not (server and set_name):
        raise Refused("server_missing", "name the setnode: keys setnode --set set-1 --server set-1-a")
    secrets = secrets_of(data)
    if kind == SUPERUSER:
        env = {"PGPASSWORD": _superuser_password(secrets, set_name or "")}
    else:
        env = secrets.environment(kind, server or kind, set_name or "")
    shown = "\n".join(f"{name}={value}" for name, value in env.items())
    print_report({"kind": kind, "environment": env}, as_json=as_json, show=shown)


def _superuser_password(secrets: Secrets, server: str) -> str:
    if not secrets.has_passwords(server):
        text = f"{secrets.path} has no passwords of a cluster {server!r}; name it (--set wallet), and the installation"
        raise Refused("unknown_set", f"{text} (--installation FILE, or HONGBAO_INSTALLATION)")
    return secrets.passwords(server)[SUPERUSER]
