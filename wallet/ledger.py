"""The one transaction that writes money."""

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
from msgspec.structs import astuple

from envelope.errors import InvariantBroken
from runtime.literals import array, numbers, texts
from wallet.accounts import Accounts
from wallet.decide import Known, Plan, decide
from wallet.draft import Columns, Draft, lay_together
from wallet.postings import FundRow, Posting, user_account
from wallet.recent import RecentCreates
from wallet.requests import DepositRequest, FundRequest, PayRequest, Request
from wallet.sql import SQL
from wire.orders import escrow_account, fund_order


class Ledger:
    """Writes a batch of drafts in one transaction on the connection it is given.

    It raises what Postgres raises; the caller rolls back or drops the connection (`wallet.batcher`).
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._recent = RecentCreates()
        self._connection: Any = None

    async def write(
        self, connection: Any, drafts: Sequence[Draft], *, careful: bool, follows: Callable[[], bool] = lambda: False
    ) -> Plan:
        """Commit the requests of `drafts`; when it returns, every answer of the plan is durable.

        `follows` is asked before the commit whether another batch will be written at once: the same command then begins
        its transaction, and the connection is left in it.

        An optimistic attempt may raise UniqueViolationError or CheckViolationError: nothing was written, and a
        careful attempt will say which requests are at fault.
        """
        if connection is not self._connection:
            # A database that was restored may give the numbers it has lost to others; no connection outlives that.
            self._accounts.forget()
            self._recent.forget()
            self._connection = connection
        if careful:
            plan = await self._write_carefully(connection, [draft.request for draft in drafts])
        else:
            plan = await self._write_trustingly(connection, drafts, follows)
        self._recent.remember(plan.funds)
        return plan

    async def _write_trustingly(self, connection: Any, drafts: Sequence[Draft], follows: Callable[[], bool]) -> Plan:
        plan, columns = lay_together(drafts, self._recent.taken_from(draft.request for draft in drafts))
        numbered = self._accounts.known(columns.accounts) if columns and not plan.asks_balances else None
        if columns and numbered:
            await self._write_at_once(connection, plan, columns, numbered, follows)
            return plan
        await _hold(connection)
        return await self._finish(connection, plan, columns)

    async def _write_at_once(
        self,
        connection: Any,
        plan: Plan,
        columns: Columns,
        numbered: dict[str, str],
        follows: Callable[[], bool],
    ) -> None:
        """Write what needs nothing read or made before: payouts by a statement that is a transaction of its own.

        Such a statement can still commit after its sender has given it up. Of a payout that is the wanted end, by
        whomever. A create may meanwhile have been refused for want of money, finally: it ends with a COMMIT that only a
        sender who still waits can send. With batches of 60 creates a BEGIN of its own was a twentieth of that.
        """
        if plan.funds and not connection.is_in_transaction():
            await connection.execute("BEGIN")
        await self._post(connection, columns, plan.funds, numbered)
        if connection.is_in_transaction():
            await connection.execute("COMMIT AND CHAIN" if follows() else "COMMIT")

    async def _write_carefully(self, connection: Any, requests: Sequence[Request]) -> Plan:
        await _hold(connection)
        plan = decide(requests, await _read(connection, requests))
        return await self._finish(connection, plan, Columns.of(plan.postings))

    async def _finish(self, connection: Any, plan: Plan, columns: Columns | None) -> Plan:
        """Write `plan` in the transaction that holds the ledger, and commit it."""
        numbered: dict[str, str] = {}
        if columns:
            numbered = await self._accounts.number(connection, columns.accounts)
            await self._post(connection, columns, plan.funds, numbered)
        else:
            await connection.execute(SQL["mark"])
        await _tell_balances(connection, plan)
        await connection.execute("COMMIT")
        self._accounts.remember(numbered)
        return plan

    async def _post(
        self, connection: Any, columns: Columns, funds: Sequence[FundRow], numbered: dict[str, str]
    ) -> None:
        number = numbered.__getitem__
        debits, credits_ = array(map(number, columns.debits)), array(map(number, columns.credits))
        users = credits_ if columns.users == columns.credits else array(map(number, columns.users))
        keys, prints, payers, totals, envelopes = zip(*map(astuple, funds), strict=True) if funds else ((),) * 5
        try:
            await connection.execute(
                SQL["post"],
                columns.order_nos,
                columns.kinds,
                debits,
                credits_,
                users,
                columns.amounts,
                columns.envelopes,
                len(columns.touched),
                texts(keys),
                texts(prints),
                array(map(number, payers)),
                numbers(totals),
                numbers(envelopes),
            )
        except asyncpg.RaiseError as missing:
            self._accounts.forget()
            raise InvariantBroken("accounts_moved", str(missing)) from missing


async def _hold(connection: Any) -> None:
    """Begin a transaction that holds the ledger."""
    if connection.is_in_transaction():
        # Empty: begun by the last COMMIT.
        await connection.execute("ROLLBACK")
    await connection.execute(SQL["hold"])


async def _tell_balances(connection: Any, plan: Plan) -> None:
    if plan.asks_balances:
        names = {answer for answer in plan.answers if isinstance(answer, str)}
        balances = dict(await connection.fetch(SQL["balances"], list(names)))
        plan.answers = [balances[answer] if isinstance(answer, str) else answer for answer in plan.answers]


async def _read(connection: Any, requests: Sequence[Request]) -> Known:
    """Read what the database knows about these requests, under the ledger's lock."""
    orders: set[str] = set()
    names: set[str] = set()
    creates: list[FundRequest] = []
    for request in requests:
        if isinstance(request, PayRequest):
            orders.update(order.order_no for order in request.orders)
            # Users are credited only, but a later FUND of the same batch may spend what they get here.
            names.update(user_account(order.user) for order in request.orders)
            names.update(escrow_account(order.envelope_id) for order in request.orders)
        elif isinstance(request, DepositRequest):
            orders.add(request.order_no)
            names.add(user_account(request.user))
        else:
            creates.append(request)
            orders.add(fund_order(request.create_key))
            names.update((user_account(request.user), escrow_account(request.envelope_id)))
    known = Known(balances=dict(await connection.fetch(SQL["lock_balances"], list(names))))
    for order_no, kind, user, amount_fen, envelope_id in await connection.fetch(SQL["known_orders"], list(orders)):
        known.orders[order_no] = Posting(order_no, kind, "", "", user, amount_fen, envelope_id)
    if creates:
        keys = [request.create_key for request in creates]
        envelopes = [request.envelope_id for request in creates]
        for create_key, fingerprint, envelope_id in await connection.fetch(SQL["known_funds"], keys, envelopes):
            known.funds[create_key] = (fingerprint, envelope_id)
            known.taken.add(envelope_id)
    return known
