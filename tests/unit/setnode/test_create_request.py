"""What a create says, read off the link."""

from envelope.split import Split
from envelope.terms import Kind
from setnode.creation.request import read_create

TERMS = {"kind": "lucky", "split": "bell", "total_fen": 100, "count": 20, "expires_in_s": 60}


def test_what_is_left_out_has_a_default():
    """A caller may leave out what most creates have not."""
    create = read_create(["ann", "k", "f", [2611210000000001007], TERMS])
    assert (create.sender, create.envelope_ids) == ("ann", [2611210000000001007])
    wish = create.terms
    assert (wish.kind, wish.split, wish.greeting) == (Kind.LUCKY, Split.BELL, "")
    assert wish.to is wish.password is wish.opens_at_ms is None


def test_receivers_are_a_set_and_a_password_is_not_shown():
    """The order of receivers means nothing; whoever prints a create does not print its password."""
    terms = {**TERMS, "to": ["cid", "bob", "cid"], "password": "secret-1234"}
    create = read_create(["ann", "k", "f", [1], terms])
    assert create.terms.to == {"bob", "cid"}
    assert create.terms.password == "secret-1234"
    assert "1234" not in repr(create)
