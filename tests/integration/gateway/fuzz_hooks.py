"""What schemathesis checks beside its own: a problem's code is one of those that the document lists for its status."""

from typing import Any

import schemathesis


@schemathesis.check
def problem_code_is_listed(ctx: Any, response: Any, case: Any) -> None:
    """Hold the code of an answer against `x-codes`."""
    del ctx
    listed = case.operation.definition.raw.get("responses", {}).get(str(response.status_code), {}).get("x-codes")
    if listed is not None:
        code = response.json()["code"]
        assert code in listed, f"{code} is not listed with {response.status_code}: {listed}"
