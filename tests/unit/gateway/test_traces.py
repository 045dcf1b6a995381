"""Which requests are traced: those of trusted callers that say so, and our own share of the others."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from gateway.identity.auth_failures import CLIENT_ADDRESS
from gateway.identity.proxies import TrustedProxies
from gateway.traces import Sampler
from runtime.traces.context import PACKED_BYTES, TraceContext, new_trace, read_traceparent, unpacked
from runtime.traces.limits import TRACES_PER_S

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
RECORDED, PASSED_BY = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
CONTEXT = TraceContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN))


def headers(traceparent: str | None) -> "CIMultiDictProxy[str]":
    return CIMultiDictProxy(CIMultiDict({} if traceparent is None else {"traceparent": traceparent}))


def sampler(ratio: float = 0.0) -> Sampler:
    return Sampler(ratio, TrustedProxies("10.0.0.0/8"))


@pytest.fixture
def trusted() -> None:
    CLIENT_ADDRESS.set("10.1.2.3")


@pytest.mark.usefixtures("trusted")
def test_a_trusted_caller_decides_for_its_requests() -> None:
    """What a trusted caller records is traced below its span; what it does not is not, whatever our own share is."""
    assert sampler().choose(headers(RECORDED)) == CONTEXT
    assert sampler(1.0).choose(headers(PASSED_BY)) is None
    assert sampler().choose(headers(None)) is None


def test_a_stranger_does_not_decide() -> None:
    """The header of an address that was not named counts for nothing: neither for a trace nor against one."""
    CLIENT_ADDRESS.set("192.0.2.7")
    assert sampler().choose(headers(RECORDED)) is None
    ours = sampler(1.0).choose(headers(PASSED_BY))
    assert ours is not None
    assert (ours.trace_id, ours.span_id) != CONTEXT
    assert Sampler(0.0, TrustedProxies("")).choose(headers(RECORDED)) is None


@pytest.mark.usefixtures("trusted")
def test_no_more_are_traced_than_fit_into_a_second() -> None:
    """Whoever asks for traces, a gateway makes so many a second."""
    one = sampler(1.0)
    chosen = sum(one.choose(headers(RECORDED)) is not None for _ in range(3 * TRACES_PER_S))
    assert TRACES_PER_S <= chosen <= 2 * TRACES_PER_S  # a second may end meanwhile


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "00",
        RECORDED[:-1],
        f"{RECORDED}-more",
        RECORDED.replace("00-", "ff-", 1),
        RECORDED.upper(),
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
    ],
)
def test_a_malformed_header_counts_as_none(malformed: str) -> None:
    """A header that W3C Trace Context calls invalid is as none: our own share decides."""
    assert sampler().choose(headers(malformed)) is None
    assert sampler(1.0).choose(headers(malformed)) is not None


def test_a_later_version_of_the_header_is_read_as_far_as_it_is_known() -> None:
    """What a later version appends is ignored."""
    assert read_traceparent(f"01-{TRACE}-{SPAN}-03-more") == (CONTEXT, True)


def test_a_context_comes_off_a_link_as_it_went_on() -> None:
    """26 bytes carry trace and span; anything else is no context."""
    assert len(CONTEXT.packed) == PACKED_BYTES == 26
    assert unpacked(CONTEXT.packed) == CONTEXT
    assert len(new_trace().packed) == PACKED_BYTES
    assert unpacked(CONTEXT.packed[:-1]) is None
    assert unpacked("text") is None
