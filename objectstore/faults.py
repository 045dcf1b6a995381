"""What an object store answers, in our words. Its own text is not shown whole: it may quote what was sent."""

import contextlib
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from errors import HongbaoError, Refused, Unavailable
from objectstore.address import Address

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w{1,60})</Code>")
_FULL: Final = {
    "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage", "StorageFull",
    "AccountStorageLimitExceeded", "EntityTooLarge",
}  # fmt: skip
_REDIRECT: Final = "BareRedirect"
"""What the client says of a redirect that does not say where to."""
_ELSEWHERE: Final = {
    _REDIRECT,
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
}
_DENIED: Final = {
    "AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken",
    "InvalidToken", "AccountProblem", "MethodNotAllowed", "ReadOnly",
}  # fmt: skip


@contextlib.contextmanager
def translated(place: Address, name: str = "", *, what: str = "read") -> Iterator[None]:
    """Translate the client's errors in the block, which concerns the object `name`: see the room's plate."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 - a slow import that only users of a store need

    try:
        yield
    except HongbaoError:
        raise
    except (BaseError, OSError) as error:
        raise _fault(error, place, name, what) from None


def _fault(error: Exception, place: Address, name: str, what: str) -> HongbaoError:
    from obstore import exceptions  # noqa: PLC0415 - see translated

    text = str(error)
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    code = found[1] if (found := _CODE.search(text)) else ""
    if not code and not status:
        # An answer of 200 with a refusal in it, as to the deletion of many.
        code = next((one for one in sorted((*_DENIED, _REDIRECT)) if one in text), "")
    where = f"{place}/{name}" if name else str(place)
    if (refused := _of_bucket(code, status, place, where, what)) is not None:
        return refused
    if status == HTTPStatus.CONFLICT:
        # Two conditional writes at once: the store decided neither that there is an object nor that there is none.
        return Refused("object_changed", f"{where} is being written by somebody else; try again")
    if isinstance(error, exceptions.AlreadyExistsError):
        return Refused("object_exists", f"{where} is there already, and is not replaced")
    if isinstance(error, exceptions.PreconditionError) or status == HTTPStatus.PRECONDITION_FAILED:
        left = "read it again" if what == "read" else "nothing was written"
        return Refused("object_changed", f"{where} was changed by somebody else meanwhile; {left}")
    if isinstance(error, FileNotFoundError) or status == HTTPStatus.NOT_FOUND:
        return Refused("object_missing", f"{where} is missing")
    if isinstance(error, OSError):
        return Refused("file_unreadable", f"a file for {where} cannot be read here: {error.strerror or error}")
    reason = f"it answers {status} {code}".rstrip() if status else "no answer"
    return Unavailable("bucket_away", f"cannot {what} {where}: {reason}; try again later", retry_after_s=5.0)


def _of_bucket(code: str, status: int, place: Address, where: str, what: str) -> Refused | None:
    """Return what is the matter with the bucket, or with what we may do in it; None if it is not that."""
    if code == "NoSuchBucket":
        return Refused(
            "bucket_missing", f"there is no bucket {place.bucket}: make it, or correct the name and AWS_ENDPOINT_URL"
        )
    if code in _FULL or status == HTTPStatus.INSUFFICIENT_STORAGE:
        return Refused(
            "bucket_full", f"{where} was not written: the store is full or at its quota; make room, then try again"
        )
    if code in _DENIED or status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED):
        return Refused(
            "bucket_denied",
            f"the store does not let us {what} {where} ({code or status}): correct the credentials or the bucket's "
            "policy",
        )
    if code in _ELSEWHERE or status in (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.TEMPORARY_REDIRECT):
        return Refused(
            "bucket_elsewhere",
            f"the store says that {place.bucket} is in another region, or at another address ({code or status}): "
            "correct AWS_REGION or AWS_ENDPOINT_URL",
        )
    if status == HTTPStatus.NOT_IMPLEMENTED:
        return Refused(
            "bucket_unfit",
            f"the store cannot do what is needed to {what} {where} ({code or status}): it must know conditional writes "
            "(If-None-Match), which keep two writers apart",
        )
    return None
