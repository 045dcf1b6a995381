"""`hongbao psql`: a psql at one database server, which cannot write unless it is asked to."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

from errors import Refused
from installation import data_folder
from installation.finding import find
from machine.account import server_account
from machine.postgres.binaries import find_binaries
from runtime.dsn import hosts, password_of, tls_environment, wanted
from runtime.reporting import data_option
from schema import roles

READ_ONLY = "-c default_transaction_read_only=on"


@click.command("psql", context_settings={"ignore_unknown_options": True})
@click.argument("server", metavar="SET")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[PSQL OPTIONS]")
@click.option("--write", is_flag=True, help="Let it write. A row changed by hand freezes its envelope.")
@data_option
def command(*, server: str, words: tuple[str, ...], write: bool, data: Path | None) -> None:
    """Open psql at the database of SET (or wallet) as the owner of all tables; day tables are db_07.claim_3_21.

    Every transaction is read-only, unless --write is given or you say so in the session. Further words go to psql, as
    in `psql set-1 -c "SELECT 1"`. Which table holds an envelope says `dba where ID`.
    """
    dsn = find(data).dsn(server, roles.OWNER)
    parts, found = urlsplit(dsn), hosts(dsn)
    program = find_binaries(server_account(), data_folder.locate(data).path).program("psql")
    options = " ".join([os.environ.get("PGOPTIONS", ""), "" if write else READ_ONLY]).strip()
    # In the environment: every user of the machine can read a process' arguments.
    env = {
        **os.environ, "PGHOST": ",".join(host for host, _ in found), "PGPORT": ",".join(str(port) for _, port in found),
        "PGUSER": unquote(parts.username or ""), "PGPASSWORD": password_of(dsn) or "",
        "PGTARGETSESSIONATTRS": wanted(dsn),
        "PGDATABASE": parts.path.strip("/"), "PGOPTIONS": options, "PGAPPNAME": "hongbao:psql",
        **tls_environment(dsn),
    }  # fmt: skip
    try:
        os.execve(program, [program, *words], env)  # noqa: S606 - the Postgres of this installation
    except OSError as error:
        raise Refused("no_psql", f"{program} cannot be run ({error.strerror}); set HONGBAO_PG_BIN") from error
