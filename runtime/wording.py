"""Words in sentences for people."""


def counted(number: int, noun: str) -> str:
    """Return "1 row", "2 rows", "1,000 rows": a count with its noun, which takes an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
