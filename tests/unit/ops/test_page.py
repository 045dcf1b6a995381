"""The page's files: vendored ones are as their manifest says, texts are in both languages, no path is absolute."""

import hashlib
import json
import re
from pathlib import Path

WEB = Path(__file__).resolve().parents[3] / "ops" / "web"
SOURCES = sorted([*WEB.glob("*.js"), *WEB.glob("*.html"), *WEB.glob("*.css")])


def test_vendored_files_are_those_of_the_manifest() -> None:
    """Each file below vendor/ is in the manifest, with its licence and SHA-256, and unchanged."""
    rows = json.loads((WEB / "vendor" / "manifest.json").read_text())
    assert {one["file"] for one in rows} == {one.name for one in (WEB / "vendor").iterdir()} - {"manifest.json"}
    for one in rows:
        assert hashlib.sha256((WEB / "vendor" / one["file"]).read_bytes()).hexdigest() == one["sha256"], one["file"]
        assert one["license"] == "MIT"


def test_every_text_is_in_both_languages() -> None:
    """Each key that the page says stands in the Chinese table, and no entry is left over."""
    words = (WEB / "words.js").read_text()
    chinese = words.partition("const ZH = {")[2].partition("};")[0]
    known = set(re.findall(r'"((?:[^"\\]|\\.)*)":', chinese)) | set(
        re.findall(r"(?:^|[{,]\s*)(\w+):", chinese, re.MULTILINE)
    )
    code = "".join(one.read_text() for one in WEB.glob("*.js") if one.name != "words.js")
    said = set(re.findall(r'say\("((?:[^"\\]|\\.)*)"\)', code))
    titles = set(re.findall(r'\["\w+", "([^"]+)", "\w*"\]', code)) | set(
        re.findall(r'^  \w+: \["([^"]+)", "', code, re.MULTILINE)
    )
    assert (said | titles) - known == set()
    assert [key for key in sorted(known) if f'"{key}"' not in code and key not in _CODES] == []


_CODES = {
    # Said by what the server sends: states, kinds, codes of alarms, roles.
    "invariants_broken", "sweeper_stopped", "funds_set_apart", "payouts_stuck", "expiry_unclosable",
    "events_failing", "events_lost", "jobs_failed",
    "archive_unavailable", "days_ahead", "switched", "viewer", "operator", "lucky", "equal", "sold_out", "scheduled",
    "no_header", "unreadable", "archive", "cold", "nowhere", "open", "canceled", "expired", "undone", "funded",
    "created",
    "claimed", "paid", "refunded", "opens", "expires", "away", "paused", "drained", "hot",
}  # fmt: skip


def test_no_path_is_absolute_and_nothing_comes_from_elsewhere() -> None:
    """The page works below any prefix, and loads from its own origin alone; no text is ever parsed as HTML."""
    for one in SOURCES:
        text = one.read_text()
        assert not re.search(r"""(?:src|href|from|fetch\()\s*=?\s*["'`]/""", text), one.name
        assert not re.search(r"https?://(?!www\.w3\.org)", text), one.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            one.name
        )
