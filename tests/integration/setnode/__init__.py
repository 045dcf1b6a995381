"""One SET from inside: commits, creates, payouts, expiry and admission, on real Postgres, memcached and wallet."""
