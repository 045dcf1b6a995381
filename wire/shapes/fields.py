"""Values by place, and the shapes that several operations have."""

import msgspec


class Fields(msgspec.Struct, array_like=True, frozen=True):
    """Values by place. A reader ignores what comes after the last field, and has a default for what may be missing."""


class Nothing(Fields, frozen=True):
    """No values."""


class EnvelopeIds(Fields, frozen=True):
    """UNWATCH, PAID_OUT; and the reply of PAID_OUT."""

    envelope_ids: list[int]


class PageArgs(Fields, frozen=True):
    """WAITING, ENTRIES: a page of a user's list."""

    user: str
    before: int
    limit: int


class TracedArgs(Fields, frozen=True):
    """TRACED."""

    number: int
    context: bytes


class KnownRow(Fields, frozen=True):
    """Of PUBLISHED: a document, and the version that the caller has; 0 if none."""

    document: str
    version: int


class PublishedArgs(Fields, frozen=True):
    """PUBLISHED."""

    known: list[KnownRow]


class DocumentRow(Fields, frozen=True):
    """Of PUBLISHED: a newer version, and its text."""

    document: str
    version: int
    content: str


class PublishedReply(Fields, frozen=True):
    """Of PUBLISHED."""

    newer: list[DocumentRow]


class RefusedReply(Fields, frozen=True):
    """An error reply of status REFUSED or BROKEN."""

    code: str
    detail: str


class UnavailableReply(Fields, frozen=True):
    """An error reply of status UNAVAILABLE."""

    code: str
    detail: str
    retry_after_s: float
    outcome_known: bool
