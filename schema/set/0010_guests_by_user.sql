-- 0010 The envelopes that name a user, found by the user. Explained in schema/set.sql.
-- Lock: SHARE on guest and its leaves while the index is built, so creates that name users wait, and wrong passwords.
-- guest holds the named users of some days: a million rows take about a second. Days that are detached need no index:
-- nothing of them can be opened.

CREATE INDEX guest_user ON guest (user_id, envelope_id) WHERE invited;
