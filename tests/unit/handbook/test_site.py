"""The built site: whole, quick to build, and nothing in it that a strict policy would refuse."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.site.handbook import FOLDER
from handbook.build import what_next
from handbook.links import broken
from handbook.markup import externalize
from handbook.pages import ONLY_IN_THE_SITE
from tests.handbook_site import ROOT, build, build_said, build_seconds, handbook_site

__all__ = ["handbook_site"]

CPU_S = 120
"""What would be an accident; it takes some 15 to 30, as busy as the machine is."""
CONF = 'extensions = ["myst_parser", "handbook.extension"]\nhtml_theme = "basic"\nexclude_patterns = []\n'
BUILDS = """
import json, sys
from multiprocessing import get_context
from pathlib import Path
from handbook.build import build
site, source = Path(sys.argv[1], "site"), Path(sys.argv[1], "source")
told = []
for text in json.loads(Path(sys.argv[1], "texts").read_text()):
    (source / "index.md").write_text(text)
    # Sphinx is made to run once in a process.
    with get_context("fork").Pool(1) as pool:
        said = pool.apply(build, (site, source))
    told.append([said, (site / "index.html").read_text(), sorted(one.name for one in site.parent.iterdir())])
print(json.dumps(told))
"""


def test_no_link_leads_nowhere(handbook_site: Path) -> None:
    """Every file and anchor that a page names is there; addresses elsewhere are https and well-formed."""
    assert broken(handbook_site) == []
    assert len(list(handbook_site.rglob("*.html"))) > 60


def test_the_build_says_where_the_site_is(handbook_site: Path) -> None:
    """It ends with the folder, how many pages there are, and what to do so that one can read them."""
    pages = len(list(handbook_site.rglob("*.html")))
    assert build_said().startswith(f"made {pages} pages in {handbook_site}\nRead them from {handbook_site}/index.html")
    assert "./run restart gateway-1" in what_next(FOLDER)


def test_the_build_does_not_run_away(handbook_site: Path) -> None:
    """No page is made again for each word of another."""
    assert handbook_site.exists()
    assert build_seconds() < CPU_S


def test_the_markup_is_strict(handbook_site: Path) -> None:
    """No script, style or handler stands in a page, and nothing is loaded from elsewhere, also not by a stylesheet."""
    for path in handbook_site.rglob("*.html"):
        text = path.read_text()
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|javascript:", text), path
        assert not re.search(r"<[a-zA-Z][^<>]*\s(?:style|on[a-z]+)=\"", text), path
        assert not re.search(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"(?:https?:)?//", text), path
        assert not re.search(r"<link[^>]*\shref=\"(?:https?:)?//", text), path
    for path in handbook_site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", path.read_text()), path
    assert not list(handbook_site.rglob("*.woff*"))


def test_every_page_is_in_the_navigation(handbook_site: Path) -> None:
    """From the first page each other one is reached by the navigation."""
    first = (handbook_site / "index.html").read_text()
    for page in handbook_site.rglob("*.html"):
        name = page.relative_to(handbook_site).as_posix()
        assert name in ("index.html", "search.html") or f'href="{name}"' in first, name


def test_the_site_has_every_part(handbook_site: Path) -> None:
    """No page has a sentence in place of a part, as the file of a very long one has."""
    for path in handbook_site.rglob("*.html"):
        text = path.read_text()
        assert not [one for one in ONLY_IN_THE_SITE.values() if one.split("`")[0].strip("*") in text], path


def test_a_build_that_fails_keeps_the_site(tmp_path: Path) -> None:
    """A broken link, an anchor or a mark that there is not, or a warning fails the build; the site before stays."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "conf.py").write_text(CONF)
    good = "# First\n\n[here](#first)"
    texts = [
        f"{good}\n\n<!-- from the code: advice -->\n",
        "# Second\n\n[away](gone.md)\n",
        '# Third\n\n<a href="index.html#gone">away</a>\n',
        "# Fourth\n\n<!-- from the code: nothing -->\n",
        "# Fifth\n\n#### Too deep\n",
        "# Sixth\n\nThe site of before is gone.\n",
    ]
    (tmp_path / "texts").write_text(json.dumps(texts))
    done, _ = build(tmp_path, BUILDS)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told[0][0] == [] != told[0][1].count("Retry-After")
    for (problems, page, names), reason in zip(
        told[1:5],
        ("gone", "has no anchor #gone", "nothing of the code is called nothing", "Non-consecutive"),
        strict=True,
    ):
        assert any(reason in one for one in problems), problems
        assert "First" in page
        assert names == ["site", "source", "texts"]
    assert told[5][0] == []
    assert "Sixth" in told[5][1]


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """The checker names the page and the link: no file, no anchor, a way out of the site, an address that is none."""
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="b/c.html#y">1</a><a href="#x">2</a><a href="https://a.b/c">3</a>'
    )
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.html").write_text('<p id="y"><a href="../a.html">1</a>')
    assert broken(tmp_path) == []
    bad = ("gone.html", "b/c.html#x", "../../etc/passwd", "http://a.b/", "javascript:x()", "//a.b/c", "b")
    (tmp_path / "a.html").write_text('<p id="x" ><b id="x">' + "".join(f'<a href="{one}">' for one in bad))
    told = broken(tmp_path)
    assert [one for one in bad if not any(f": {one}: " in said for said in told)] == []
    assert any("#x is there twice" in one for one in told)


def test_styles_and_scripts_become_files(tmp_path: Path) -> None:
    """What stood inline is loaded at the same place; equal styles of tags share a class, and theirs stay."""
    (tmp_path / "_static").mkdir()
    (tmp_path / "below").mkdir()
    page = tmp_path / "below" / "a.html"
    page.write_text(
        '<html><head><style>p{color:red}</style></head><body><script>go()</script><p style="color: blue">'
        '<p class="x" style="color: blue"><svg><path style="opacity: 50%" d="M0"/></svg></body></html>'
    )
    externalize(tmp_path)
    text = page.read_text()
    assert "style=" not in text
    assert not re.search(r"<style|<script>", text)
    sheet = re.findall(r'<link rel="stylesheet" href="\.\./(_static/inline-\w+\.css)">', text)
    script = re.findall(r'<body><script src="\.\./(_static/inline-\w+\.js)"></script>', text)
    assert [(tmp_path / one).read_text() for one in sheet + script] == ["p{color:red}\n", "go()\n"]
    first, second = re.findall(r'<p class="([^"]+)">', text)
    assert second == f"x {first}"
    assert f".{first}{{color: blue}}" in (tmp_path / "_static" / "from-attributes.css").read_text()


@pytest.mark.parametrize("what", ["other", "sources", "above", "file"])
def test_a_folder_that_is_no_site_is_left_alone(tmp_path: Path, what: str) -> None:
    """A slip of the hand (`docs/build .`) must not replace a checkout: it is refused before anything is touched."""
    source = tmp_path / "checkout" / "docs"
    source.mkdir(parents=True)
    for path in (source / "index.md", tmp_path / "checkout" / "data", tmp_path / "notes"):
        path.write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").write_text("mine")
    target = {
        "other": tmp_path / "other", "sources": source, "above": tmp_path / "checkout", "file": tmp_path / "notes",
    }[what]  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    command = (
        "from pathlib import Path; from handbook.build import build; "
        f"print(build(Path({str(target)!r}), Path({str(source)!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    assert "choose another folder" in done.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_links_are_checked_below_a_symbolic_link(handbook_site: Path, tmp_path: Path) -> None:
    """The folder may be reached by another name."""
    (tmp_path / "name").symlink_to(handbook_site)
    assert broken(tmp_path / "name") == []
