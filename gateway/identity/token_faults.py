"""What is wrong with a bearer token, as the sentence that its maker reads; the code is `token_invalid` for all of them.

Of the header a sentence tells what a stranger could know anyhow: which `kid` a JWKS has is no secret. Of the claims it
tells only who has signed them with a key of ours: they are read after the signature was verified.
"""

from collections.abc import Container
from typing import Final

import jwt
from jwt.exceptions import InvalidSubjectError

from envelope.limits import LIMITS
from errors import Refused
from gateway.limits import TOKEN_CHARS

_SHOWN_CHARS: Final = 50
MALFORMED: Final = "it is no JWT: three parts in base64url with dots between them"
TOO_LONG: Final = f"it has more than {TOKEN_CHARS:,} characters"
NOT_YET: Final = "it is not valid yet: `nbf` is still to come"
NO_USER: Final = (
    f"its `sub` is no user ID: 1 to {LIMITS.user_id_chars} letters, digits or . _ @ -, beginning with a letter or "
    "digit, and no pseudonym of one who was forgotten"
)
NO_TIME: Final = "its `exp` or `nbf` is no time in seconds since 1970"
MILLISECONDS: Final = "its `exp` or `nbf` is in milliseconds; they are seconds since 1970 (Date.now() / 1000)"
_OTHER_KEY: Final = "it is made with another key than the one it is verified with"


def invalid(why: str) -> Refused:
    """Return the refusal."""
    return Refused("token_invalid", f"the bearer token is not accepted: {why}")


def fault_of(error: Exception, token: str, named: Container[str], shared_algorithm: str) -> str:
    """Return why PyJWT has refused a token; `named` are the `kid` of the key files, empty where there are none."""
    match error:
        case jwt.MissingRequiredClaimError():
            return f"it lacks the claim `{error.claim}`"
        case InvalidSubjectError():
            return NO_USER
        case jwt.InvalidAudienceError():
            return "its `aud` names other systems, not this one"
        case jwt.InvalidIssuerError():
            return "its `iss` is not the issuer whose tokens are taken here"
        case jwt.InvalidSignatureError() | jwt.InvalidAlgorithmError():
            return _fault_of_header(_header(token), named, shared_algorithm)
        case _:
            return "it is malformed"


def _header(token: str) -> dict[str, object]:
    try:
        return jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        # Its `kid` is no text, which PyJWT looks at here alone.
        return {}


def _fault_of_header(header: dict[str, object], named: Container[str], shared_algorithm: str) -> str:
    """Return why no key of ours fits: which one the header names, and with which algorithm it is signed."""
    kid, algorithm = header.get("kid"), header.get("alg")
    if isinstance(kid, str) and kid in named:
        return _OTHER_KEY
    if isinstance(kid, str) and (named or algorithm != shared_algorithm):
        none = "" if named else ": there is no file of keys (HONGBAO_TOKEN_KEYS)"
        return f"its `kid` {_shown(kid)} is that of no key here{none}"
    if named:
        return f"its header names no key (`kid`), and it is not made with the shared key ({shared_algorithm})"
    if algorithm != shared_algorithm:
        return f"it is signed with {_shown(algorithm)}, and there is only the shared key here ({shared_algorithm})"
    return _OTHER_KEY


def _shown(value: object) -> str:
    return ascii(value)[:_SHOWN_CHARS]
