"""`hongbao stop`: stops the stack that runs on a data folder."""

import os
import signal
import time
from pathlib import Path

import click

from errors import Refused, Unavailable
from installation import data_folder
from local import running
from runtime.reporting import data_option, json_option, print_report, working

STOP_S = 30.0
"""A stack stops in less than three seconds; a rotation step in flight may take longer to roll back."""
TICK_S = 0.05


@click.command("stop")
@data_option
@json_option
def command(*, data: Path | None, as_json: bool) -> None:
    """Stop everything that ./run started, as Ctrl-C in its terminal does; all data is kept."""
    folder = data_folder.locate(data)
    try:
        pid = running.load(folder.running).pid
    except Refused as refusal:
        if refusal.code == "not_up":
            raise Refused("not_up", f"nothing runs on {folder.path}, so there is nothing to stop") from None
        raise
    begun = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    with working("stopping"):
        while running.is_alive(pid):
            if time.monotonic() - begun > STOP_S:
                raise Unavailable(
                    "still_up", f"process {pid} has not stopped after {STOP_S:.0f} s; look at its terminal"
                )
            time.sleep(TICK_S)
    seconds = round(time.monotonic() - begun, 2)
    print_report(
        {"pid": pid, "seconds": seconds}, as_json=as_json, show=f"stopped after {seconds:.1f} s; all data is kept"
    )
