"""Envelope IDs: `YYMMDD` · second of the day (five digits) · tail (five) · slot (three), 19 digits in one int64.

An int inside, a string in JSON (whose numbers lose digits above 2^53). The first digit is never 0 and the ID never
above 2^63 - 1, so the years are 2010 to 2092. The day is the business day of the create; it is read from the ID, never
from a clock. Slot, database, table and day follow from the ID without a look-up.

Between day and slot stand ten digits, the serial: the second of the create and the tail, five digits of a keyed hash.
Envelopes that live at the same time are thus neighbours in every index that begins with the ID, and the opens of now
touch few of its pages (docs/decisions/0019-ids-in-order-of-time.md). Nothing reads the second back: any ten digits make
an ID. IDs are taken apart by the functions here, and nowhere else.
"""

from datetime import date, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from errors import InvariantBroken, Refused
from sharding.limits import DAY_CACHE
from sharding.slots import MAX_SLOTS, TAILS, Layout, database_of

DIGITS = 19
FIRST_YEAR, LAST_YEAR = 2010, 2092
BUSINESS_ZONE = ZoneInfo("Asia/Shanghai")
_DAY_DIGITS = 6
_SLOT_DIGITS = 3
SERIALS = 10**10
"""Ten digits: five of the second, five of the tail."""
IDS_PER_DAY = SERIALS * MAX_SLOTS


def make_id(day: date, serial: int, slot: int) -> int:
    """Return the ID made of a business day, a serial of up to ten digits and a slot.

    Raises InvariantBroken if a part is out of range.
    """
    if not (0 <= serial < SERIALS and 0 <= slot < MAX_SLOTS):
        raise InvariantBroken("id_parts", f"serial {serial} or slot {slot} is out of range")
    return first_id(day) + serial * MAX_SLOTS + slot


def day_of(envelope_id: int) -> date:
    """Return the business day on which the envelope was made; raises ValueError if no calendar has it."""
    return day_from(envelope_id // IDS_PER_DAY)


def yymmdd_of(envelope_id: int) -> int:
    """Return the first six digits of the ID, its business day as a number: 261121. Not checked to be a day."""
    return envelope_id // IDS_PER_DAY


def slot_of(envelope_id: int) -> int:
    """Return the slot: the last three digits."""
    return envelope_id % MAX_SLOTS


def database_for(envelope_id: int) -> int:
    """Return the database `xx` of the envelope."""
    return database_of(envelope_id % MAX_SLOTS)


def serial_of(envelope_id: int) -> int:
    """Return the ten digits between day and slot as a number."""
    return envelope_id // MAX_SLOTS % SERIALS


def format_id(envelope_id: int) -> str:
    """Return the ID as it stands in URLs and JSON: 19 digits."""
    return str(envelope_id)


def parse_id(text: object, layout: Layout) -> int:
    """Return the ID that a client wrote as a string of exactly 19 ASCII digits.

    Raises Refused `malformed_envelope_id` (no such string, or a year that no ID has), `impossible_day` (in no calendar,
    like 30 February) or `unknown_slot` (not in `layout`). Not checked: whether the envelope exists, and whether its day
    has come (`check_not_future`).
    """
    # isdigit alone accepts Arabic and full-width digits, int() alone signs, spaces and underscores.
    if not (isinstance(text, str) and len(text) == DIGITS and text.isascii() and text.isdigit()):
        text = f"An envelope ID has exactly {DIGITS} digits, 0 to 9; a share ID is taken whole, as it was passed on."
        raise Refused("malformed_envelope_id", text)
    _check_day(text[:_DAY_DIGITS])
    envelope_id = int(text)
    if slot_of(envelope_id) >= layout.slots:
        raise Refused("unknown_slot", "There is no envelope with this ID here; check the ID.")
    return envelope_id


def check_not_future(envelope_id: int, today: date) -> None:
    """Raise Refused `future_envelope_id` for an ID of a later business day than `today`.

    A caller whose clock may differ from others' gives the business date of an instant a little later.
    """
    if day_of(envelope_id) > today:
        raise Refused("future_envelope_id", "This envelope ID is of a day that has not come yet.")


def yymmdd(day: date) -> int:
    """Return the six digits with which the IDs of a business day begin, as a number: 261121.

    Raises InvariantBroken for a year that IDs cannot have.
    """
    if not FIRST_YEAR <= day.year <= LAST_YEAR:
        raise InvariantBroken("id_year", f"IDs reach from {FIRST_YEAR} to {LAST_YEAR}, {day} is outside")
    return (day.year % 100 * 100 + day.month) * 100 + day.day


def first_id(day: date) -> int:
    """Return the least ID of a business day: the inclusive lower bound of its partitions."""
    return yymmdd(day) * IDS_PER_DAY


def first_id_at(instant: datetime, zone: ZoneInfo = BUSINESS_ZONE) -> int:
    """Return the least ID of the second of an aware instant, by day and clock of `zone`.

    An hour that a zone has twice is in the IDs twice: their order is not the order of creates.
    """
    local = instant.astimezone(zone)
    second = (local.hour * 60 + local.minute) * 60 + local.second
    return first_id(business_date(instant, zone)) + second * TAILS * MAX_SLOTS


def candidate_ids(first: int, slot: int, tail: int, count: int) -> list[int]:
    """Return `count` IDs for a create to try in this order: same second and slot, tails from `tail` upwards.

    `first` is the least ID of the second (`first_id_at`), slot and tail come from `place_for`. After the last tail
    comes the first.
    """
    least = first + slot
    if tail > TAILS - count:
        return [least + (tail + number) % TAILS * MAX_SLOTS for number in range(count)]
    least += tail * MAX_SLOTS
    return list(range(least, least + count * MAX_SLOTS, MAX_SLOTS))


def end_id(day: date) -> int:
    """Return the exclusive upper bound of the IDs of a business day."""
    return first_id(day) + IDS_PER_DAY


def business_date(instant: datetime, zone: ZoneInfo = BUSINESS_ZONE) -> date:
    """Return the business day of an instant: its date in `zone`. Raises InvariantBroken for a naive one."""
    if instant.utcoffset() is None:
        raise InvariantBroken("aware_time", "a business date needs an instant with a time zone")
    return instant.astimezone(zone).date()


@lru_cache(maxsize=DAY_CACHE)
def day_from(digits: int) -> date:
    """Return the business day that six digits name; raises ValueError where no calendar has it."""
    return date(2000 + digits // 10_000, digits // 100 % 100, digits % 100)


@lru_cache(maxsize=DAY_CACHE)
def _check_day(digits: str) -> None:
    if not FIRST_YEAR <= 2000 + int(digits[:2]) <= LAST_YEAR:
        raise Refused(
            "malformed_envelope_id",
            f"An envelope ID starts with its year, {FIRST_YEAR % 100} to {LAST_YEAR % 100} for {FIRST_YEAR} to "
            f"{LAST_YEAR}; this one starts with {digits[:2]}.",
        )
    try:
        day_from(int(digits))
    except ValueError:
        raise Refused(
            "impossible_day", f"This envelope ID starts with {digits}, as YYMMDD a day that no calendar has."
        ) from None
