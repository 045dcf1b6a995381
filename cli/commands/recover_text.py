"""What `recover set` and `backup restore --with-paid` say of claims that the wallet has paid and a SET lacks."""

from typing import Any

from rich.console import Console

from envelope.money import yuan
from recovery.claims import LostClaims
from runtime.wording import counted


def left_json(lost: LostClaims) -> dict[str, Any]:
    """Return what is left of the claims: a hundred envelopes with the reason, and how many envelopes and claims."""
    return {
        "not_put_back": lost.left, "not_put_back_count": lost.left_count, "not_put_back_claims": lost.left_claims,
    }  # fmt: skip


def show_claims(lost: LostClaims, console: Console, *, done: bool) -> None:
    """Print what was put back, or would be, and what is left: each of its shares will be won a second time."""
    what = "put back, because the wallet has paid them" if done else "missing; --yes puts them back"
    console.print(f"{counted(lost.number, 'claim')} of {yuan(lost.fen)} yuan {what}", highlight=False)
    for one in lost.left:
        console.print(f"not put back: {one}", highlight=False)
    if (more := lost.left_count - len(lost.left)) > 0:
        console.print(f"and {counted(more, 'envelope')} more", highlight=False)
    if lost.left_count:
        left = f"{counted(lost.left_claims, 'paid claim')} not put back"
        console.print(f"{left}: whoever opens such a share now wins it, and is not paid", highlight=False)
