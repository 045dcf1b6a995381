"""A payment provider outside, as bad as real ones: `python tests/faults/provider.py` prints its port and serves.

It is naive on purpose: every POST that it works on pays again, so whoever repeats a POST without asking first pays
twice, and `GET /counts` (order number → real payments) shows it. How it treats an order is in the user's name:

slow…         pays after 0.3 s
lost…         pays, then keeps the connection silent: the caller times out after the work was done
late_error…   pays, then answers 500
early_error…  answers 500 twice without paying, then works
pending…      pays, but says "pending" twice when asked
garbage…      pays, then answers 200 with a page of HTML
refuse…       refuses for good
rude…         refuses for good, in a long text with a NUL, line breaks and an escape sequence
twice…        answers every GET and POST with the wrong order's record once, then with the right one
"""

import argparse
import asyncio
from collections import Counter

from aiohttp import web


class Book:
    """What was really paid, and how often each order was seen."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, str]] = {}
        self.users: dict[str, str] = {}
        self.payments: Counter[str] = Counter()
        self.seen: Counter[tuple[str, str]] = Counter()

    def times(self, what: str, order_no: str) -> int:
        self.seen[what, order_no] += 1
        return self.seen[what, order_no]

    def work(self, order_no: str, user: str) -> None:
        self.users[order_no] = user
        if user.startswith("refuse"):
            self.records[order_no] = {"order_no": order_no, "status": "refused", "reason": "account_closed"}
        elif user.startswith("rude"):
            reason = "no\0money\n\x1b[2J\u2028" + "x" * 500
            self.records[order_no] = {"order_no": order_no, "status": "refused", "reason": reason}
        else:
            self.payments[order_no] += 1
            self.records[order_no] = {"order_no": order_no, "status": "paid"}

    def answer(self, order_no: str) -> web.Response:
        record, user = self.records[order_no], self.users[order_no]
        if user.startswith("pending") and self.times("pending", order_no) <= 2:
            record = {"order_no": order_no, "status": "pending"}
        if user.startswith("twice") and self.times("twice", order_no) == 1:
            record = {"order_no": "another", "status": "refused", "reason": "not_yours"}
        return web.json_response(record)


def application(book: Book) -> web.Application:
    async def post(request: web.Request) -> web.Response:
        body = await request.json()
        order_no, user = body["order_no"], body["user"]
        if user.startswith("early_error") and book.times("post", order_no) <= 2:
            return web.Response(status=500)
        if user.startswith("slow"):
            await asyncio.sleep(0.3)
        book.work(order_no, user)
        if user.startswith("lost"):
            await asyncio.sleep(30)
        if user.startswith("late_error"):
            return web.Response(status=500)
        if user.startswith("garbage"):
            return web.Response(text="<html>thank you</html>", content_type="text/html")
        return book.answer(order_no)

    async def get(request: web.Request) -> web.Response:
        order_no = request.match_info["order_no"]
        return book.answer(order_no) if order_no in book.records else web.Response(status=404)

    async def counts(_: web.Request) -> web.Response:
        return web.json_response(dict(book.payments))

    app = web.Application()
    app.router.add_post("/payments", post)
    app.router.add_get("/payments/{order_no}", get)
    app.router.add_get("/counts", counts)
    return app


async def serve(port: int) -> None:
    runner = web.AppRunner(application(Book()), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201 - the caller reads it
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(serve(parser.parse_args().port))
