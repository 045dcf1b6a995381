"""Who asks and what he may see: bearer tokens, share tokens, user IDs, and the limit on those who send forged ones."""
