"""What the group chat knows: an envelope is news once, however long it waits and however many come after it."""

from tests.unit.web.node import run


def test_what_waits_for_long_is_news_once() -> None:
    """More envelopes wait than the room keeps, at every look: each has one line, and the first look alone is news."""
    waiting = [{"envelope_id": str(number), "at": "", "sender": "bob"} for number in range(25, 0, -1)]
    found = run(
        """
        const { Chat } = await web('chat.js');
        const chat = new Chat('alice');
        const news = [0, 1, 2].map(() => chat.take(input, true));
        say({ news, lines: chat.lines.map((one) => one.key) });
        """,
        waiting,
    )
    assert found == {"news": [True, False, False], "lines": [str(number) for number in range(1, 26)]}
