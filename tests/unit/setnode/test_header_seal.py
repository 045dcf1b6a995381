"""What binds a header to its money must be computed alike for ever: by every later version, from the same terms."""

import hashlib

import pytest

from envelope.header_hash import header_hash, header_hashes
from errors import InvariantBroken
from setnode.header_seal import Draft, HeaderSeal
from tests.unit.envelope.test_ladder import terms

SEAL = HeaderSeal(b"k" * 32)
NONCE = bytes(range(16))


def test_the_hash_is_of_the_text_that_the_docs_give():
    """A header without named receivers, written out by hand."""
    text = (
        'hongbao.header/1\n[2611210000000001007,"sender","lucky","double_mean",1,100,3,null,null,"",0,'
        f'1795190400000,1795276800000,"{"00" * 32}","k",false,null]'
    )
    found = terms(opens_at_ms=1795190400000, expires_at_ms=1795276800000)
    assert header_hash(found) == hashlib.sha256(text.encode()).digest()


def test_named_receivers_are_in_the_hash_in_order():
    """With one of them exchanged the hash is another; the order in which they were read does not matter."""
    found = terms(opens_at_ms=1, expires_at_ms=2, invited=frozenset({"zoe", "ann"}))
    text = (
        'hongbao.header/2\n[2611210000000001007,"sender","lucky","double_mean",1,100,3,null,null,"",0,1,2,'
        f'"{"00" * 32}","k",["ann","zoe"],null]'
    )
    assert header_hash(found) == hashlib.sha256(text.encode()).digest()
    assert header_hash(terms(invited=frozenset({"zoe", "eve"}))) not in header_hashes(terms(invited=frozenset({"zoe"})))


def test_a_named_header_of_before_still_has_its_hash():
    """Before receivers were in the hash it only said that there were some; such a seal still opens its envelope."""
    found = terms(opens_at_ms=1, expires_at_ms=2, invited=frozenset({"ann"}))
    text = (
        'hongbao.header/1\n[2611210000000001007,"sender","lucky","double_mean",1,100,3,null,null,"",0,1,2,'
        f'"{"00" * 32}","k",true,null]'
    )
    before = hashlib.sha256(text.encode()).digest()
    assert before in header_hashes(found)
    SEAL.check(terms(opens_at_ms=1, expires_at_ms=2, invited=frozenset({"ann"}), seal=SEAL.of(before)))


def test_seal_and_seed_are_those_of_the_first_day():
    """With the same key; another one gives neither."""
    assert SEAL.of(bytes(32)) == "bbc811fcbd7a525890bd92cd2899abe0"
    assert (
        SEAL.seed(2611210000000001007, NONCE).hex()
        == "846aca9267113bfc48ef43210b4754cf1cc87fbc59dbd50f85cac152b59729bc"
    )
    assert HeaderSeal(b"x" * 32).of(bytes(32)) != SEAL.of(bytes(32))


@pytest.mark.parametrize("change", [{"total_fen": 101}, {"opens_at_ms": 7}, {"sender": "eve"}, {"password_mac": "0"}])
def test_a_sealed_header_that_was_changed_is_refused(change):
    """Each field that is money or rule; without a seal (older than seals) it passes."""
    sealed = terms(seal=SEAL.of(header_hash(terms())))
    SEAL.check(sealed)
    with pytest.raises(InvariantBroken) as broken:
        SEAL.check(terms(seal=sealed.seal, **change))
    assert broken.value.check == "header_is_sealed"
    SEAL.check(terms(**change))


def test_a_draft_is_packed_as_on_the_first_day():
    """The wallet keeps these bytes; funds that are older than drafts have none."""
    draft = Draft(1_795_190_400_000, 2, NONCE)
    assert draft.pack().hex() == "000001a1f9afa4000002000102030405060708090a0b0c0d0e0f"
    assert Draft.read(draft.pack()) == draft
    assert Draft.read(b"") is None
