"""The page's files: names by content, one policy, and markup that the policy allows."""

import gzip
import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from errors import InvariantBroken, Refused
from gateway.site.answers import accepts, takes
from gateway.site.files import FOLDER, INDEX, read_files
from gateway.site.page import import_map, needed, policy, read_origins, render
from gateway.site.site import Site

FILES = read_files()
TEMPLATE = (FOLDER / INDEX).read_text()
FIRST = ("app.js", "screens/home.js", "screens/signin.js")
PAGE = render(TEMPLATE, FILES, "./", (), FIRST)
FIRST_PAGE_BYTES = 60 * 1024


def test_a_name_changes_with_the_content(tmp_path: Path) -> None:
    """The same content has the same name in every gateway, and another content another one."""
    (tmp_path / "a.js").write_text("1")
    first = read_files(tmp_path)["a.js"]
    assert read_files(tmp_path)["a.js"] == first
    (tmp_path / "a.js").write_text("2")
    assert read_files(tmp_path)["a.js"].hashed != first.hashed
    assert re.fullmatch(r"a\.[0-9a-f]{10}\.js", first.hashed)


def test_only_what_the_page_loads_is_served() -> None:
    """Licences, the manifest, the index and notes for developers are no assets."""
    assert {Path(name).suffix for name in FILES} <= {".js", ".mjs", ".css", ".svg"}
    assert all(gzip.decompress(one.gzipped) == one.body for one in FILES.values() if one.gzipped != one.body)


def test_the_policy_allows_this_import_map_and_no_other_script() -> None:
    """The hash in the policy is that of the one inline script, and nothing may be evaluated."""
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", PAGE, flags=re.DOTALL)
    inline = [text for attributes, text in scripts if "src=" not in attributes]
    assert inline == [import_map(FILES)]
    told = policy(FILES, ())
    assert f"'sha256-{b64encode(sha256(inline[0].encode()).digest()).decode()}'" in told
    assert "unsafe" not in told
    assert "frame-ancestors 'none'" in told
    assert "frame-ancestors https://a.example https://b.example" in policy(
        FILES, ("https://a.example", "https://b.example")
    )


def test_the_markup_has_nothing_that_the_policy_forbids() -> None:
    """No inline handler, no style in the markup, no script: URL, nothing from elsewhere; neither in the modules."""
    own = {"index.html": PAGE, **{name: one.body.decode() for name, one in FILES.items() if "vendor/" not in name}}
    for name, text in own.items():
        assert not re.search(r"<[a-z][^>]*\son[a-z]+=[\"']", text), name
        assert not re.search(r"<[a-z][^>$]*\sstyle=[\"']", text) or name.endswith(".svg"), name
        assert "javascript:" not in text, name
        assert not re.search(r"https?://(?!www\.w3\.org)", text), name
        assert not re.search(r"\beval\(|new Function|innerHTML|dangerouslySetInnerHTML|document\.write", text), name


def test_every_url_is_relative_and_there() -> None:
    """The index and the import map name existing files below the base; no URL begins with a slash."""
    hashed = {one.hashed for one in FILES.values()}
    references = re.findall(r'(?:href|src)="([^"]+)"', PAGE)
    assert len(references) > 5
    for one in references:
        assert one == "./" or one.removeprefix("assets/") in hashed
    for target in json.loads(import_map(FILES))["imports"].values():
        assert target.removeprefix("./assets/") in hashed
    assert render(TEMPLATE, FILES, "../", (), FIRST) == PAGE.replace('<base href="./">', '<base href="../">')


def test_what_is_loaded_first_is_asked_for_at_once() -> None:
    """The index preloads what its modules import, and what those import, each once; no more than fits three rounds."""
    preloaded = re.findall(r'rel="modulepreload" href="assets/([^"]+)"', PAGE)
    assert len(preloaded) == len(set(preloaded))
    names = {one.hashed: name for name, one in FILES.items()}
    assert [names[one] for one in preloaded] == needed(FILES, *FIRST)
    assert {"vendor/preact.mjs", "vendor/hooks.mjs", "vendor/htm.mjs", "texts.js", "pages.js"} <= set(
        needed(FILES, *FIRST)
    )
    # Without HTTP/2 a browser has six connections to a host; the stylesheet is one of the files.
    for modules in (FIRST, ("app.js", "screens/envelope.js")):
        assert len(needed(FILES, *modules)) + 1 <= 3 * 6


def test_a_module_that_is_missing_is_found_at_the_start(tmp_path: Path) -> None:
    """An import of what is not there does not wait for the first browser."""
    (tmp_path / "app.js").write_text("import {\n  a,\n} from './gone.js';\n")
    with pytest.raises(InvariantBroken, match=r"gone\.js"):
        needed(read_files(tmp_path), "app.js")


def test_the_first_page_is_small() -> None:
    """All that a browser loads before anybody has gone anywhere, compressed: at most 60 KB."""
    hashed = {one.hashed: one for one in FILES.values()}
    loaded = set(re.findall(r'(?:href|src)="assets/([^"]+)"', PAGE))
    assert len(loaded) > 10
    whole = sum(len(hashed[name].gzipped) for name in loaded) + len(gzip.compress(PAGE.encode(), 9))
    assert whole <= FIRST_PAGE_BYTES


def test_what_is_not_whole_is_found_at_the_start(tmp_path: Path) -> None:
    """No files, an index without its marks, or with a name that is not there: the gateway does not start."""
    with pytest.raises(InvariantBroken, match="no files"):
        Site(folder=tmp_path)
    for template in (
        "{base}{parents}{preloads}",
        '{base}{parents}{preloads}{importmap}<script src="assets/nothing.js">',
    ):
        with pytest.raises(InvariantBroken):
            render(template, FILES, "./", (), ["app.js"])


@pytest.mark.parametrize(
    "text", ["*", "'self'", "https://a.example; script-src *", "https://*.example", "a.example", "https://a/b"]
)
def test_origins_are_exact(text: str) -> None:
    """What is not the origin of one site is refused: it would be put into the policy."""
    with pytest.raises(Refused, match="is not an origin"):
        read_origins("X", text)
    assert read_origins("X", " https://a.example,http://localhost:3000 ") == (
        "https://a.example",
        "http://localhost:3000",
    )


@pytest.mark.parametrize(
    ("header", "yes"),
    [
        ("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=1.0", True), ("gzip;q=0", False), ("gzip; q=0.000", False),
        ("", False), ("br", False), ("xgzip", False), ("*", False),
    ],
)  # fmt: skip
def test_what_a_client_accepts(header: str, yes: bool) -> None:
    """Only what is named, and not with the weight 0."""
    assert accepts([header], "gzip") is yes


@pytest.mark.parametrize(
    ("headers", "yes"),
    [
        ([], True), ([""], True), (["*/*"], True), (["text/html"], True), (["TEXT/*;q=0.1"], True),
        (["application/json", "*/*;q=0.1"], True), (["application/json"], False), (["image/*, text/plain"], False),
        (["text/html;q=0, */*"], False), (["*/*;q=0.0"], False), (["text/*;q=0, text/html"], True),
    ],
)  # fmt: skip
def test_what_a_client_takes(headers: list[str], yes: bool) -> None:
    """Anything without the header; else what the most specific range that fits says."""
    assert takes(headers, "text/html") is yes


def test_both_ways_into_the_dark_are_the_same() -> None:
    """The system's dark and the chosen one have the same tokens: CSS cannot share them."""
    blocks = re.findall(r"color-scheme: dark;([^}]*)}", FILES["style.css"].body.decode())
    first, second = (re.findall(r"(--[\w-]+): ([^;]+);", one) for one in blocks)
    assert first == second != []
