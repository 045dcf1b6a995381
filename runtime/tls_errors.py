"""What is wrong with certificates where a connection by TLS could not be made: one sentence that says what to do."""

import ssl
from collections.abc import Iterator, Mapping
from typing import Final

RENEW: Final = "make another one: ./run installation certificates"

_UNTRUSTED: Final = frozenset({18, 19, 20, 21})
"""OpenSSL's numbers for a certificate that signs itself, or whose signer is not known."""
_NOT_YET, _OVER = 9, 10
_OTHER_NAME: Final = frozenset({62, 64})
_ALERTS: Final[Mapping[str, str]] = {
    "ALERT_CERTIFICATE_EXPIRED": f"says that this process's certificate is not valid now; {RENEW}",
    "ALERT_CERTIFICATE_REQUIRED": "asks for a certificate, and this process has none; set HONGBAO_TLS_CERT and TLS_CA",
    "ALERT_UNKNOWN_CA": f"does not know the CA of this process's certificate; {RENEW}",
    "ALERT_BAD_CERTIFICATE": f"does not accept this process's certificate; {RENEW}",
    "ALERT_UNSUPPORTED_CERTIFICATE": f"does not accept this process's certificate for a call; {RENEW}",
    "ALERT_CERTIFICATE_UNKNOWN": f"does not accept this process's certificate; {RENEW}",
    "ALERT_INTERNAL_ERROR": f"has no certificate that is valid now; there {RENEW}",
    "ALERT_PROTOCOL_VERSION": "does not speak TLS 1.3",
    "WRONG_VERSION_NUMBER": "does not speak TLS; set HONGBAO_TLS_CERT there, or call it by http://",
    "RECORD_LAYER_FAILURE": "does not speak TLS; set HONGBAO_TLS_CERT there, or call it by http://",
}


def sentence_of(error: BaseException, url: str) -> str:
    """Say what is wrong with certificates where a connection to `url` failed by `error`; "" if it is something else."""
    for one in _causes(error):
        if isinstance(one, ssl.SSLCertVerificationError) and hasattr(one, "verify_code"):
            return f"what listens at {url} shows a certificate {_wrong(one, url)}"
        text = str(one)
        for alert, sentence in _ALERTS.items():
            if alert in text:
                return f"what listens at {url} {sentence}"
    return ""


def _wrong(error: ssl.SSLCertVerificationError, url: str) -> str:
    if error.verify_code == _OVER:
        return f"that has expired; there {RENEW}"
    if error.verify_code == _NOT_YET:
        return f"that is not valid yet; see the clocks, or there {RENEW}"
    if error.verify_code in _OTHER_NAME:
        return f"for other hosts; there {RENEW} --host NAME=HOST"
    if error.verify_code in _UNTRUSTED:
        return (
            "that is not of the CA that is trusted here; find out who listens there, and whether it has the right one"
        )
    return f"that cannot be accepted: {error.verify_message}; {url} is not called"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came from; aiohttp has that in attributes, too."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop(0)
        if not isinstance(one, BaseException) or one in seen:
            continue
        seen.append(one)
        yield one
        more = [getattr(one, name, None) for name in ("certificate_error", "os_error", "__cause__", "__context__")]
        waiting += [*getattr(one, "exceptions", ()), *more]
