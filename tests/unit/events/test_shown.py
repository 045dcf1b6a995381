"""What `hongbao events` prints of sinks."""

from rich.console import Console

from cli.commands.events_text import dead_table, sinks_table
from runtime.tables import print_table


def printed(table):
    console = Console(width=200)
    with console.capture() as captured:
        print_table(console, table)
    return captured.get()


def test_texts_of_receivers_are_shown_as_they_are():
    """Brackets in an answer or in an address are no markup: they neither vanish nor end the command."""
    reason, url = "the receiver answered 500 [/b] [red]no[/red]", "https://[fd00::1]/hook"
    sink = {
        "name": "app", "state": "active", "behind_s": 1.0, "delivered": 1, "retried": 0, "dead": 0, "url": url,
        "needs": [reason],
    }  # fmt: skip
    shown = printed(sinks_table([sink]))
    assert url in shown
    assert reason in shown
    letter = {"sink": "app", "event_id": "1.created", "tries": 9, "since": "2026-11-21T01:23", "reason": reason}
    assert reason in printed(dead_table([letter]))
