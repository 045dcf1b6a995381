"""Creates' payments as tests make them: the header they would pay for does not matter there."""

from wallet.requests import FundRequest

HEADER = bytes(32)
DRAFT = b""


def fund_request(
    create_key: str, fingerprint: str, user: str, total_fen: int, envelope_id: int, draft: bytes = DRAFT
) -> FundRequest:
    """Return the request that pays for a create."""
    return FundRequest(create_key, fingerprint, user, total_fen, envelope_id, HEADER, draft)
