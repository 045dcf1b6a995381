"""What nobody asks for and must happen: payouts, expiry, the sweeping up of creates that died.

`payout` credits every committed claim until that is final, with `bundles` as its lines and `stuck` for operators;
`expiry` closes what is due and refunds what is left; `sweeper` undoes creates that paid in and went no further;
`parts` cuts lists of envelopes into what one query may ask for.
"""
