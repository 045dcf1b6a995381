"""Texts in two languages, amounts and forms: the parts of the page that need no browser."""

import re

import pytest

from envelope.limits import LIMITS
from envelope.money import MAX_TOTAL_FEN, yuan
from gateway.identity.users import USER_PATTERN
from gateway.problems import PROBLEMS
from gateway.site.files import FOLDER
from tests.unit.web.node import run

GREETING = "恭喜发财\uff0c大吉大利"
SOURCES = {path.relative_to(FOLDER).as_posix(): path.read_text() for path in FOLDER.rglob("*.js")}


def texts() -> dict[str, dict[str, str]]:
    found = run("say({ zh: (await web('texts.js')).zh, en: (await web('texts.js')).en })")
    assert isinstance(found, dict)
    return found


def test_both_languages_say_everything() -> None:
    """The same keys, none empty, with the same names to be filled in, and each problem of the page is the gateway's."""
    found = texts()
    assert set(found["zh"]) == set(found["en"])
    for key, text in found["zh"].items():
        if key != "send.unit":
            assert text, key
            assert found["en"][key], key
        names = [set(re.findall(r"\{(\w+)\}", one.split("|")[0])) for one in (text, found["en"][key])]
        assert names[0] == names[1], key
    own = {"offline", "unsure", "busy", "other"}
    assert {key.removeprefix("problem.") for key in found["zh"] if key.startswith("problem.")} <= set(PROBLEMS) | own


def test_every_text_is_used_and_every_use_has_a_text() -> None:
    """Keys that are written out in a module are there, and none is left over."""
    keys = set(texts()["zh"])
    code = "".join(text for name, text in SOURCES.items() if name != "texts.js")
    used = set(re.findall(r"\bt\(\s*'([^']+)'", code))
    assert used <= keys
    named = {key for key in keys if f"'{key}'" in code}
    prefixes = {found.group(1) for found in re.finditer(r"`([a-z_.]+\.)\$\{", code)}
    rest = {key for key in keys - named if not any(key.startswith(prefix) for prefix in prefixes)}
    built = {key for key in rest if re.search(r"\.(hint|empty|text)$", key)}
    assert rest - built == set()


@pytest.mark.parametrize(
    ("text", "fen", "wrong"),
    [
        ("8.88", 888, None), ("8", 800, None), ("8.8", 880, None), ("8.", 800, None), (".5", 50, None),
        ("0.01", 1, None),
        (" 12.30 ", 1230, None), ("\uff11\uff12\uff0e\uff13", 1230, None), ("1\u30025", 150, None), ("007", 700, None),
        ("1000000", MAX_TOTAL_FEN, None), ("0.29", 29, None), ("1.15", 115, None), ("4.35", 435, None),
        ("", 0, "empty"), ("  ", 0, "empty"), ("0", 0, "zero"), ("0.00", 0, "zero"), ("0.001", 0, "decimals"),
        ("1.234", 0, "decimals"), ("abc", 0, "malformed"), ("-1", 0, "malformed"), ("1e3", 0, "malformed"),
        ("1,000", 0, "malformed"), (".", 0, "malformed"), ("1.2.3", 0, "malformed"), ("0x10", 0, "malformed"),
        ("1000000.01", 0, "too_much"), ("9" * 30, 0, "too_much"), ("Infinity", 0, "malformed"), ("٣", 0, "malformed"),
    ],
)  # fmt: skip
def test_amounts_are_read_without_floats(text: str, fen: int, wrong: str | None) -> None:
    """What people type is whole fen or a reason why not; 1.15 is 115 fen, not 114.99999999999999."""
    assert run("say((await web('money.js')).parseFen(input))", text) == {"fen": fen, "wrong": wrong}


def test_every_amount_is_written_and_read_alike() -> None:
    """As `envelope.money` writes it, and back."""
    values = [*range(300), 99_999, 100_000, 123_456_789, MAX_TOTAL_FEN, *range(12_340, 12_360)]
    found = run(
        """
        const { parseFen, yuan } = await web('money.js');
        say(input.map((fen) => [yuan(fen), parseFen(yuan(fen).replace(/,/g, '')).fen]));
        """,
        values,
    )
    assert isinstance(found, list)
    for fen, (text, again) in zip(values, found, strict=True):
        assert text.replace(",", "") == yuan(fen)
        assert again == (fen if fen <= MAX_TOTAL_FEN else 0)


@pytest.mark.parametrize(
    ("fen", "zh", "en"),
    [
        (188, "一元八角八分", "one yuan 88 fen"), (100, "一元", "one yuan"), (5, "五分", "5 fen"),
        (1, "一分", "one fen"),
        (50, "五角", "50 fen"), (105, "一元零五分", "one yuan 5 fen"), (0, "零元", "zero yuan"),
        (1000, "十元", "10 yuan"),
        (1100, "十一元", "11 yuan"), (2_000, "二十元", "20 yuan"), (10_500, "一百零五元", "105 yuan"),
        (11_000, "一百一十元", "110 yuan"), (100_100, "一千零一元", "1001 yuan"), (1_000_000, "一万元", "10000 yuan"),
        (1_001_000, "一万零一十元", "10010 yuan"), (12_345_678, "十二万三千四百五十六元七角八分", "123456 yuan 78 fen"),
        (100_000_000, "一百万元", "1000000 yuan"), (-550, "负五元五角", "minus 5 yuan 50 fen"),
    ],
)  # fmt: skip
def test_amounts_are_said(fen: int, zh: str, en: str) -> None:
    """As a person would read them out."""
    assert run("const { words } = await web('money.js'); say([words(input, 'zh'), words(input, 'en')])", fen) == [
        zh,
        en,
    ]


GOOD = {
    "mode": "lucky", "amount": "8.88", "count": "8", "to": "", "password": "", "greeting": "", "later": False,
    "opens_at": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({}, []),
        ({"amount": ""}, ["amount"]),
        ({"amount": "0.07"}, ["count"]),
        ({"amount": "200.01"}, ["amount"]),
        ({"count": "0"}, ["count"]), ({"count": "1.5"}, ["count"]), ({"count": "10001"}, ["count"]),
        ({"count": ""}, ["count"]),
        ({"greeting": "福" * 64}, []), ({"greeting": "🧧" * 64}, []), ({"greeting": "福" * 65}, ["greeting"]),
        ({"greeting": "a\u202eb"}, ["greeting"]), ({"greeting": "مبارك"}, []),
        ({"mode": "password"}, ["password"]), ({"mode": "password", "password": "年年有余"}, []),
        ({"mode": "password", "password": "x" * 33}, ["password"]),
        ({"mode": "named"}, ["to"]), ({"mode": "named", "to": "bob, carol"}, []),
        ({"mode": "named", "to": "小明"}, ["to"]),
        ({"mode": "named", "to": "bob bob"}, ["to"]),
        ({"mode": "named", "to": " ".join(f"u{n}" for n in range(101)), "amount": "1"}, ["to"]),
        ({"mode": "equal", "amount": "30", "count": "8"}, ["amount"]),
        ({"later": True}, ["opens_at"]), ({"later": True, "opens_at": "2026-11-21T12:00"}, ["opens_at"]),
        ({"later": True, "opens_at": "2026-11-23T12:00"}, []),
        ({"later": True, "opens_at": "2026-12-21T12:00"}, ["opens_at"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_beside_its_field(change: dict[str, object], fields: list[str]) -> None:
    """With 200 yuan in the wallet, at noon of the 22nd: exactly the fields that are wrong, each with a sentence."""
    found = run(
        """
        globalThis.localStorage = { getItem: () => null };
        const { wrongs } = await web('terms.js');
        say(wrongs(input, 20000, Date.parse('2026-11-22T12:00')));
        """,
        {**GOOD, **change},
    )
    assert isinstance(found, dict)
    assert list(found) == fields
    assert all(len(text) > 3 for text in found.values())


def test_what_is_sent_is_what_the_gateway_takes() -> None:
    """A draft of each kind becomes a body that `read_terms` accepts."""
    import json

    from gateway.parsing.terms import read_terms
    from tests.unit.gateway.test_terms import NOW_MS

    drafts = [
        GOOD,
        {**GOOD, "mode": "equal", "amount": "1.11"},
        {**GOOD, "mode": "named", "to": "bob、carol", "amount": "5"},
        {**GOOD, "mode": "password", "password": "年年有余", "greeting": " 新年好 "},
    ]
    found = run("const { body } = await web('terms.js'); say(input.map(body))", drafts)
    assert isinstance(found, list)
    terms = [read_terms(json.dumps(one).encode(), NOW_MS) for one in found]
    assert [(one.kind, one.total_fen, one.count) for one in terms] == [
        ("lucky", 888, 8), ("equal", 888, 8), ("equal", 1000, 2), ("lucky", 888, 8)
    ]  # fmt: skip
    assert terms[2].to == ["bob", "carol"]
    assert [one.greeting for one in terms] == [*3 * [GREETING], "新年好"]


def test_limits_are_those_of_the_rules() -> None:
    """The numbers in the page are those of `envelope.limits`."""
    terms, money = SOURCES["terms.js"], SOURCES["money.js"]
    for name, value in {
        "GREETING_CHARS": LIMITS.greeting_chars, "PASSWORD_CHARS": LIMITS.password_chars,
        "MOST_NAMES": LIMITS.invited_users,
    }.items():  # fmt: skip
        assert f"const {name} = {value};" in terms
    assert f"MOST_FEN = {LIMITS.max_total_fen:_};" in money
    assert f"MOST_SHARES = {LIMITS.max_count:_};" in money
    assert f"const USER = /{USER_PATTERN}/;" in terms
    assert f"MOST_AHEAD_MS = {LIMITS.max_opens_in_s // 86_400} * 86_400_000;" in terms


def test_a_stream_is_read_in_whatever_pieces() -> None:
    """Events, comments, waits and every line end that the format has, cut at every place."""
    text = (
        ': hello\r\nevent: envelope\rid: 7\ndata: {"a":\r\ndata: 1}\r\n\r\n: ping\n\ndata\n\n'
        "retry: 250\n\nretry: soon\n\ndata:x\n\nevent: gone\n\n"
    )
    found = run(
        """
        const { Events } = await web('live.js');
        const read = (pieces) => {
          const seen = [];
          const events = new Events((one) => seen.push(one), (ms) => seen.push(ms));
          pieces.forEach((one) => events.push(one));
          return seen;
        };
        const halves = Array.from({ length: input.length + 1 }, (_, i) => read([input.slice(0, i), input.slice(i)]));
        say([...halves, read([...input])]);
        """,
        text,
    )
    whole = [
        {"type": "envelope", "data": '{"a":\n1}', "id": "7"},
        {"type": "message", "data": "", "id": ""},
        250,
        {"type": "message", "data": "x", "id": ""},
    ]
    assert isinstance(found, list)
    assert all(one == whole for one in found)


def test_claims_are_a_window_from_the_newest_down() -> None:
    """What arrives out of order, twice or with a gap is shown as far as it has no gap; pages fill it to the end."""
    found = run(
        """
        const { Claims, query } = await web('live.js');
        const row = (seq) => ({ seq, user: 'u' + seq, amount_fen: 1, claimed_at: '' });
        const range = (from, to) => Array.from({ length: to - from }, (_, i) => row(from + i));
        const all = new Claims();
        const steps = [];
        const seqs = () => all.newest().map((one) => one.seq);
        const look = () => steps.push([seqs().slice(0, 2), seqs().length, all.next()]);
        look();
        all.add(range(0, 100), 10000); look();
        all.add(range(9980, 10000), 10000); look();
        all.add(range(9880, 9980), 10000); look();
        all.add(range(10020, 10040), 10040); look();
        all.add([], 5); look();
        let pages = 0;
        for (let page = all.next(); page; page = all.next()) {
          pages++;
          all.add(range(page.cursor, page.cursor + page.limit), 10040);
        }
        say([steps, pages, all.newest().length, query({ cursor: 0, limit: 5 }), query({ cursor: 7, limit: 5 })]);
        """
    )
    assert isinstance(found, list)
    steps, pages, length, first, second = found
    assert steps == [
        [[], 0, None],
        [[], 0, {"cursor": 9900, "limit": 100}],
        [[9999, 9998], 20, {"cursor": 9880, "limit": 100}],
        [[9999, 9998], 120, {"cursor": 9780, "limit": 100}],
        [[10039, 10038], 20, {"cursor": 9920, "limit": 100}],
        [[10039, 10038], 20, {"cursor": 9920, "limit": 100}],
    ]
    assert (length, first, second) == (10040, "?limit=5", "?limit=5&cursor=7")
    assert 98 <= pages <= 102
