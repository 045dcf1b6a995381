"""Titles of problems in the language of the client."""

import json

import pytest

from errors import Refused
from gateway.problem_answers import problem_answer
from gateway.problems import PROBLEMS
from gateway.titles import CHINESE_TITLES, language_of


def test_every_problem_has_a_title_in_chinese() -> None:
    """And none has two: problems that share their English title share the other."""
    assert set(CHINESE_TITLES) == set(PROBLEMS)
    by_english: dict[str, set[str]] = {}
    for code, row in PROBLEMS.items():
        by_english.setdefault(row.title, set()).add(CHINESE_TITLES[code])
    assert all(len(titles) == 1 for titles in by_english.values())


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("zh", "zh"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-US,en;q=0.9,zh;q=0.8", "en"),
        ("en;q=0.4, ZH-Hant;q=0.5", "zh"),
        ("fr-FR, zh;q=0.1", "zh"),
        ("fr", "en"),
        ("*", "en"),
        ("", "en"),
        ("zh;q=0", "en"),
        ("zh;q=nan, en;q=0.1", "en"),
        ("zh;q=2, en;q=0.1", "en"),
        ("zh;level=1", "en"),
        ("zhou", "en"),
        (";;,,=;q", "en"),
        ("fr," * 5_000 + "zh", "en"),
    ],
)
def test_which_language_a_client_prefers(accepted: str, language: str) -> None:
    """By weight; what is no language tag, or comes after the tenth, is passed over."""
    assert language_of(accepted) == language


def test_the_code_is_the_same_in_every_language() -> None:
    """Programs go by it; the title alone is for people."""
    error = Refused("share_id_invalid", "the link was cut")
    english, chinese = (problem_answer(error, b"r", "openEnvelope", (), one) for one in ("", "zh-CN"))
    first, second = json.loads(english.body), json.loads(chinese.body)
    assert second.pop("title") == "链接不完整或无效"
    first.pop("title")
    assert first == second
    assert (english.headers, chinese.headers) == (b"", b"Content-Language: zh\r\n")
