"""The ledger on a real Postgres."""
