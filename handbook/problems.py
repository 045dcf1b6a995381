"""The catalogue of problems: each code with its status, what a client should do, and which operations answer it."""

from typing import Final

from gateway.openapi.operations import OPERATIONS
from gateway.openapi.refusals import NO_ROUTE_CODES, REFUSALS
from gateway.problems import ADVICE, PROBLEMS, WITH_RETRY_AFTER
from handbook.markdown import anchor, code, link, sections, table, text

_OF_USERS: Final = {name for name, operation in OPERATIONS.items() if not operation.public}


def problems() -> str:
    """Return a section for each word of advice, with its codes in order of status."""
    return sections(
        sections(
            (
                f"### retry: {word.value}",
                text(meaning),
                table(
                    ("code", "status", "means", "answered by"),
                    (
                        (f"{anchor(name)}{code(name)}", str(row.status), text(_means(name)), _operations(name))
                        for name, row in sorted(PROBLEMS.items(), key=lambda one: (one[1].status, one[0]))
                        if row.retry is word
                    ),
                ),
            )
        )
        for word, meaning in ADVICE.items()
    )


def advice() -> str:
    """Return the words of advice and what a client does."""
    return table(
        ("`retry`", "what the client does", "header Retry-After"),
        ((code(word), text(meaning), "yes" if word in WITH_RETRY_AFTER else "no") for word, meaning in ADVICE.items()),
    )


def _means(name: str) -> str:
    row = PROBLEMS[name]
    return f"{row.title}: {row.detail}." if row.detail else f"{row.title}."


def _operations(name: str) -> str:
    if name in NO_ROUTE_CODES:
        return "requests that fit no operation"
    found = [operation for operation, codes in REFUSALS.items() if name in codes]
    if len(found) == len(REFUSALS):
        return "every operation"
    if set(found) == _OF_USERS:
        return "every call of a user"
    return ", ".join(link(one, f"api.md#{one}") for one in found)
