"""What the page makes of answers to a create that is repeated: once unknown, the outcome stays unknown."""

import pytest

from tests.unit.web.node import run

ASKS = """
globalThis.document = { baseURI: 'http://localhost/', documentElement: {}, addEventListener() {} };
globalThis.addEventListener = () => {};
globalThis.location = { pathname: '/', hash: '', search: '', href: '' };
const { patiently, call } = await web('api.js');
const { t } = await web('i18n.js');
let calls = 0;
globalThis.fetch = async () => {
  const [status, code, retry] = input.answers[Math.min(calls++, input.answers.length - 1)];
  const headers = new Map([['Retry-After', '0.001']]);
  return { ok: status < 300, status, headers, json: async () => ({ code, detail: code, retry }) };
};
try {
  await patiently(() => call('POST', 'envelopes', { body: {}, key: 'k' }), { unknown: input.unknown });
  say({ calls });
} catch (error) {
  say({ calls, code: error.code, unsure: error.unsure, text: t(error.key) });
}
process.exit(0);  // each call leaves a timer of 15 s
"""
UNKNOWN = [504, "outcome_unknown", "repeat"]


@pytest.mark.parametrize(
    "later",
    [
        [503, "busy", "later"],
        [503, "wallet_unavailable", "later"],
        [429, "too_many_requests", "later"],
        [401, "token_expired", "never"],
        [409, "insufficient_funds", "changed"],
    ],
)
@pytest.mark.parametrize("where", ["in this call", "before it"])
def test_a_later_refusal_says_nothing_about_the_attempt_that_had_no_answer(later: list[object], where: str) -> None:
    """The next press must be the same create, or it is paid twice; and no sentence says that no money moved."""
    answers = [UNKNOWN, later] if where == "in this call" else [later]
    found = run(ASKS, {"answers": answers, "unknown": where == "before it"})
    assert (found["code"], found["unsure"]) == (later[1], True)
    assert "再试一次是安全的" in found["text"]


def test_a_refusal_alone_is_sure_and_so_is_one_that_tells_of_all() -> None:
    assert run(ASKS, {"answers": [[503, "busy", "later"]], "unknown": False})["unsure"] is False
    undone = [UNKNOWN, [409, "create_undone", "changed"]]
    assert run(ASKS, {"answers": undone, "unknown": False})["unsure"] is False


def test_an_answer_ends_it() -> None:
    assert run(ASKS, {"answers": [UNKNOWN, [201, "", ""]], "unknown": True}) == {"calls": 2}
