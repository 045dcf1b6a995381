"""Settings of the daemon that takes days out of the tables."""

import pytest

from errors import Refused
from rotation.daemon import DaemonSettings
from rotation.limits import MIN_AGE_DAYS
from runtime.settings import load


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ROTATE_RETENTION_DAYS", "-40"), ("ROTATE_RETENTION_DAYS", "0"), ("ROTATE_RETENTION_DAYS", "99999999999"),
        ("ROTATE_GRACE_DAYS", "-1"), ("ROTATE_GRACE_DAYS", str(MIN_AGE_DAYS - 1)),
        ("ROTATE_EVERY_S", "0"), ("ROTATE_EVERY_S", "-1"), ("ROTATE_EVERY_S", "nan"), ("ROTATE_EVERY_S", "inf"),
    ],
)  # fmt: skip
def test_what_would_drop_days_too_early_is_refused(name: str, text: str) -> None:
    """An age that is none, 0 days for "for ever", rounds without a pause: the error names the setting."""
    with pytest.raises(Refused, match=name):
        load(DaemonSettings, {f"HONGBAO_{name}": text})


def test_what_is_right_is_taken() -> None:
    """The youngest age, a round each second."""
    given = {"ROTATE_RETENTION_DAYS": str(MIN_AGE_DAYS), "ROTATE_GRACE_DAYS": "9", "ROTATE_EVERY_S": "1"}
    found = load(DaemonSettings, {f"HONGBAO_{name}": text for name, text in given.items()})
    assert (found.rotate_retention_days, found.rotate_grace_days, found.rotate_every_s) == (MIN_AGE_DAYS, 9, 1.0)
