"""The one transaction that writes money: optimistic first, then careful, by what the database knows."""

from collections.abc import Sequence
from typing import Any

import asyncpg
from msgspec.structs import astuple

from errors import InvariantBroken
from runtime import sql
from runtime.postgres import Connection
from runtime.postgres.arrays import array, numbers, texts
from wallet.accounts import Accounts
from wallet.decide import Known, Plan, decide
from wallet.draft import Columns, Draft, merge
from wallet.postings import FundRow, Posting, user_account
from wallet.recent import RecentCreates
from wallet.requests import DepositRequest, FundRequest, PayRequest, WalletRequest
from wire.orders import escrow_account, fund_order

_BALANCES = sql.read("wallet", "balances")
_BEGIN_EXCLUSIVE = sql.read("wallet", "begin_exclusive")
_KNOWN_FUNDS = sql.read("wallet", "known_funds")
_KNOWN_ORDERS = sql.read("wallet", "known_orders")
_EMIT_WAL = sql.read("wallet", "emit_wal")
_POST = sql.read("wallet", "post")


class BatchRefused(Exception):
    """A constraint refused the batch, which rests on an assumption that is not so; nothing was written."""


class Ledger:
    """Writes a batch of drafts in one transaction on the connection it is given; one batch at a time.

    Raises what Postgres raises, InvariantBroken(`accounts_moved`) if an account whose number was cached is gone, and
    InvariantBroken(`commit_commits`) if a COMMIT did not commit.
    After an error the caller rolls back or drops the connection (`wallet.batcher`).
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._recent = RecentCreates()
        self._connection: Connection = None

    async def write(self, connection: Connection, drafts: Sequence[Draft], *, careful: bool) -> Plan:
        """Decide and commit the requests of `drafts`; when it returns, every answer of the plan is durable.

        It may raise BatchRefused: nothing was written. After an optimistic attempt a careful one, which reads first,
        finds out which requests are at fault.
        """
        if connection is not self._connection:
            # A restored database may give known account numbers to other accounts; no connection survives a restore.
            self._accounts.forget()
            self._recent.forget()
            self._connection = connection
        if careful:
            plan = await self._write_carefully(connection, [draft.request for draft in drafts])
        else:
            plan = await self._write_optimistically(connection, drafts)
        self._recent.remember(plan.funds)
        return plan

    async def _write_optimistically(self, connection: Connection, drafts: Sequence[Draft]) -> Plan:
        plan, columns = merge(drafts, self._recent.taken_from(draft.request for draft in drafts))
        numbered = self._accounts.known(columns.accounts) if columns and not plan.needs_balances else None
        if columns and numbered:
            await self._write_at_once(connection, plan, columns, numbered)
            return plan
        await connection.execute(_BEGIN_EXCLUSIVE)
        return await self._finish(connection, plan, columns)

    async def _write_at_once(
        self, connection: Connection, plan: Plan, columns: Columns, numbered: dict[str, str]
    ) -> None:
        """Write a batch that needs no read and no new account: payouts alone as one statement, its own transaction.

        Such a statement can commit after this process has dropped the connection. For a payout that is harmless: a
        retry finds it paid. But a retry of a create may meanwhile have been refused with INSUFFICIENT, which is final.
        So a batch with creates ends with a separate COMMIT, which is never sent on a connection that was dropped.
        """
        if not plan.funds:
            await self._post(connection, columns, plan.funds, numbered)
            return
        await connection.execute("BEGIN")
        await self._post(connection, columns, plan.funds, numbered)
        await _commit(connection)

    async def _write_carefully(self, connection: Connection, requests: Sequence[WalletRequest]) -> Plan:
        await connection.execute(_BEGIN_EXCLUSIVE)
        plan = decide(requests, await _read(connection, requests))
        return await self._finish(connection, plan, Columns.of(plan.postings))

    async def _finish(self, connection: Connection, plan: Plan, columns: Columns | None) -> Plan:
        """Write `plan` in the transaction that holds the ledger's lock, fill in balances, and commit."""
        numbered: dict[str, str] = {}
        if columns:
            numbered = await self._accounts.number(connection, columns.accounts)
            await self._post(connection, columns, plan.funds, numbered)
        else:
            await connection.execute(_EMIT_WAL)
        await _fill_in_balances(connection, plan)
        await _commit(connection)
        self._accounts.remember(numbered)
        return plan

    async def _post(
        self, connection: Connection, columns: Columns, funds: Sequence[FundRow], numbered: dict[str, str]
    ) -> None:
        """Call the SQL function `post`; `numbered` has the number of every account named in `columns` and `funds`."""
        number = numbered.__getitem__
        debits, credits_ = array(map(number, columns.debits)), array(map(number, columns.credits))
        users = credits_ if columns.users == columns.credits else array(map(number, columns.users))
        keys, prints, payers, totals, envelopes, hashes, drafts = _columns(funds)
        try:
            refused_by = await connection.fetchval(
                _POST,
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
                texts([one.hex() for one in hashes]),
                texts([one.hex() for one in drafts]),
            )
        except asyncpg.RaiseError as missing:
            self._accounts.forget()
            raise InvariantBroken("accounts_moved", str(missing)) from missing
        if refused_by is not None:
            raise BatchRefused(refused_by)


def _columns(funds: Sequence[FundRow]) -> tuple[tuple[Any, ...], ...]:
    if not funds:
        return ((),) * len(FundRow.__struct_fields__)
    return tuple(zip(*map(astuple, funds), strict=True))


async def _commit(connection: Connection) -> None:
    """Commit; raises InvariantBroken(`commit_commits`) if Postgres answers that it has rolled back.

    That is its answer, without an error, to the COMMIT of a transaction in which a statement failed.
    """
    if (tag := await connection.execute("COMMIT")) != "COMMIT":
        raise InvariantBroken("commit_commits", f"the ledger's COMMIT was answered with {tag}: nothing was written")


async def _fill_in_balances(connection: Connection, plan: Plan) -> None:
    if plan.needs_balances:
        names = {answer for answer in plan.answers if isinstance(answer, str)}
        balances = dict(await connection.fetch(_BALANCES, list(names)))
        plan.answers = [balances[answer] if isinstance(answer, str) else answer for answer in plan.answers]


async def _read(connection: Connection, requests: Sequence[WalletRequest]) -> Known:
    """Read what the database knows about these requests; the caller holds the ledger's lock."""
    orders: set[str] = set()
    names: set[str] = set()
    creates: list[FundRequest] = []
    envelopes: set[int] = set()
    for request in requests:
        if isinstance(request, PayRequest):
            orders.update(order.order_no for order in request.orders)
            # Users are only credited, but a later FUND of the same batch may spend the credit.
            names.update(user_account(order.user) for order in request.orders)
            names.update(escrow_account(order.envelope_id) for order in request.orders)
            envelopes.update(order.envelope_id for order in request.orders)
        elif isinstance(request, DepositRequest):
            orders.add(request.order_no)
            names.add(user_account(request.user))
        else:
            creates.append(request)
            orders.add(fund_order(request.create_key))
            names.update((user_account(request.user), escrow_account(request.envelope_id)))
    left: dict[int, int] = {}
    known = Known(balances=dict(await connection.fetch(_BALANCES, list(names))), left=left)
    for order_no, kind, user, amount_fen, envelope_id in await connection.fetch(_KNOWN_ORDERS, list(orders)):
        known.orders[order_no] = Posting(order_no, kind, "", "", user, amount_fen, envelope_id)
    envelopes.update(request.envelope_id for request in creates)
    if envelopes:
        keys = [request.create_key for request in creates]
        for create_key, fingerprint, envelope_id, left_fen, draft in await connection.fetch(
            _KNOWN_FUNDS, keys, list(envelopes)
        ):
            known.funds[create_key] = (fingerprint, envelope_id, draft)
            known.taken.add(envelope_id)
            left[envelope_id] = left_fen
    return known
