"""What other releases have signed, and will sign, is read: the bytes count, not how this release would write them."""

import hashlib
import hmac
import json
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from archive import manifest
from archive.bucket import signed
from archive.bucket.signed import Blocks
from errors import Refused

DAY, XX = date(2026, 11, 3), 7
KEY = b"an archive key for tests"
KEPT = Path(__file__).parent / "manifests"
DIGESTS = {
    1: "1e1412670f77171fcf3dcbd36c89df9338ed3f750325ed34a41c9b5022259794",
    2: "ad4eac0b071b8886e31835c661f2a8cab8fe00c3b98285a19c9020e35c2ad1f8",
}


def put(folder: Path, inner: bytes) -> str:
    """Sign bytes as they stand; returns their digest."""
    mac = hmac.new(KEY, b"hongbao archive\n" + inner, hashlib.sha256).hexdigest()
    (folder / manifest.NAME).write_bytes(b'{"manifest": %b, "hmac_sha256": "%b"}' % (inner, mac.encode()))
    return hashlib.sha256(inner).hexdigest()


def inner_of(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((KEPT / "format_2.json").read_text())["manifest"]
    return found | changes


@pytest.mark.parametrize("form", DIGESTS)
def test_a_manifest_of_each_format_is_read(tmp_path: Path, form: int) -> None:
    """Kept as bytes since they were written: signed, with their digest, and signed again they are the same bytes."""
    kept = (KEPT / f"format_{form}.json").read_bytes()
    (tmp_path / manifest.NAME).write_bytes(kept)
    found = manifest.read(tmp_path, KEY, xx=XX, day=DAY)
    assert (found.format, found.claims, found.files["guest.parquet"].size) == (form, 2, 702)
    assert found.digest == DIGESTS[form]
    assert manifest.sign(found, KEY) == kept


def test_a_field_of_a_later_release_is_passed_over(tmp_path: Path) -> None:
    """Neither it nor another order or spacing makes an archive forged; the digest is that of the bytes."""
    later = inner_of(signed_where="host-7")
    digest = put(tmp_path, json.dumps(dict(reversed(later.items()))).encode())
    found = manifest.read(tmp_path, KEY, xx=XX, day=DAY)
    assert (found.digest, found.envelopes) == (digest, 1)
    (tmp_path / manifest.NAME).write_bytes(manifest.sign(found, KEY))
    assert manifest.read(tmp_path, KEY, xx=XX, day=DAY).digest == digest, "what is copied has the same digest"
    changed = msgspec.structs.replace(found, envelopes=2)
    assert b'"envelopes": 2' in changed.encode()
    assert changed.digest != digest


def test_a_field_of_a_later_release_is_passed_over_in_an_object_store() -> None:
    """As in a folder."""
    inner = json.dumps(inner_of(signed_where="host-7")).encode()
    mac = hmac.new(KEY, b"hongbao archive\n" + inner, hashlib.sha256).digest()
    found = manifest.checked(inner, mac, "here", KEY, xx=XX, day=DAY)
    blocks = Blocks(1 << 20, dict.fromkeys(found.files, "ab" * 32))
    content = signed.encode(found, blocks, KEY)
    assert signed.decode(content, "here", KEY, xx=XX, day=DAY).manifest.digest == found.digest


def test_a_later_format_is_named_as_that(tmp_path: Path) -> None:
    """Not forged and not corrupt, which the rotation would cure by writing it anew."""
    put(tmp_path, json.dumps({"format": 3, "day": "2026-11-03"}).encode())
    with pytest.raises(Refused) as refused:
        manifest.read(tmp_path, KEY, xx=XX, day=DAY)
    assert refused.value.code == "archive_format_unknown"


def test_signed_for_another_day_it_is_none_of_this_day(tmp_path: Path) -> None:
    """The manifest knows which database and date it is of."""
    put(tmp_path, json.dumps(inner_of(xx=8)).encode())
    with pytest.raises(Refused, match="manifest of db_08") as refused:
        manifest.read(tmp_path, KEY, xx=XX, day=DAY)
    assert refused.value.code == "archive_forged"
