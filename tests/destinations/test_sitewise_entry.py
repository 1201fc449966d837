"""Which entries SiteWise would take, decided without asking it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.destinations.sitewise_entry import (
    Checked,
    checked,
    in_window,
    parts_without_conflict,
    points,
)
from penstock.model import (
    AssetPropertyValue,
    PutAssetPropertyValueEntry,
    Quality,
    TimeInNanos,
    Variant,
)
from penstock.util import Util

NOW_S = 1_735_571_045
ASSET = "11111111-2222-3333-4444-55555555555a"
PROPERTY = "11111111-2222-3333-4444-55555555555b"
DAY_S = 86_400


def entry(**changes: Any) -> dict[str, Any]:
    """A valid one; None takes a field away."""
    fields = {
        "entryId": "1",
        "propertyAlias": "/plant/press/temperature",
        "propertyValues": [value()],
        **changes,
    }
    return {name: item for name, item in fields.items() if item is not None}


def value(seconds: int = NOW_S, nanos: int | None = None, **variant: Any) -> dict[str, Any]:
    stamp = {"timeInSeconds": seconds} | ({} if nanos is None else {"offsetInNanos": nanos})
    return {"value": variant or {"doubleValue": 21.5}, "timestamp": stamp}


def check(document: Any) -> Checked:
    return checked(json.dumps(document).encode())


@pytest.mark.parametrize(
    "document",
    [
        entry(),
        entry(propertyAlias=None, assetId=ASSET, propertyId=PROPERTY),
        entry(propertyValues=[value(NOW_S, nanos) for nanos in range(10)]),
        entry(propertyValues=[value(stringValue="")]),
        entry(propertyValues=[value(stringValue="x" * 1024)]),
        entry(propertyValues=[value(integerValue=-(2**31))]),
        entry(propertyValues=[value(integerValue=2**31 - 1)]),
        entry(propertyValues=[value(doubleValue=0)]),
        entry(propertyValues=[value(doubleValue=-1e9)]),
        entry(propertyValues=[value(doubleValue="NaN")]),
        entry(propertyValues=[value(booleanValue=False)]),
        entry(propertyValues=[{**value(nullValue={"valueType": "D"}), "quality": "BAD"}]),
        entry(unknown="is ignored"),
        entry(entryId="x" * 64),
    ],
)
def test_what_the_service_takes_is_taken(document: dict[str, Any]) -> None:
    assert check(document).refusal is None


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("text", "Expected `object`"),
        ([entry()], "Expected `object`"),
        (entry(entryId=None), "entryId"),
        (entry(entryId=""), "entryId"),
        (entry(entryId="a b"), "entryId"),
        (entry(entryId="x" * 65), "entryId"),
        (entry(propertyAlias=None), "needs propertyAlias, or assetId and propertyId"),
        (entry(propertyAlias=None, assetId=ASSET), "needs propertyAlias"),
        (entry(propertyAlias=""), "propertyAlias"),
        (entry(propertyAlias="a\nb"), "propertyAlias"),
        (entry(propertyAlias="x" * 2049), "propertyAlias"),
        (entry(propertyAlias=None, assetId="A" * 36, propertyId=PROPERTY), "assetId"),
        (entry(assetId="00000000-0000-0000-0000-000000000000"), "all zeros"),
        (entry(propertyValues=None), "propertyValues"),
        (entry(propertyValues=[]), "propertyValues"),
        (entry(propertyValues=[value(NOW_S + n) for n in range(11)]), "propertyValues"),
        (entry(propertyValues=[value(integerValue=1, doubleValue=1.0)]), "exactly one of"),
        (entry(propertyValues=[{**value(), "value": {}}]), "exactly one of"),
        (entry(propertyValues=[value(integerValue=2**31)]), "integerValue"),
        (entry(propertyValues=[value(integerValue=1.5)]), "integerValue"),
        (entry(propertyValues=[value(stringValue="x" * 1025)]), "stringValue"),
        (entry(propertyValues=[value(stringValue="a\x07")]), "stringValue"),
        (entry(propertyValues=[value(doubleValue="Infinity")]), "doubleValue"),
        (entry(propertyValues=[value(nullValue={"valueType": "X"})]), "valueType"),
        (entry(propertyValues=[value(0)]), "timeInSeconds"),
        (entry(propertyValues=[value(NOW_S, 10**9)]), "offsetInNanos"),
        (entry(propertyValues=[{**value(), "quality": "FAIR"}]), "quality"),
        (entry(propertyValues=[{"value": {"doubleValue": 1}}]), "timestamp"),
        (entry(propertyValues=[value(), value(NOW_S, 0)]), "the same timestamp"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_the_field_and_the_rule(
    document: Any, words: str
) -> None:
    found = check(document)

    assert found.entry is None
    assert found.refusal is not None
    assert found.refusal.startswith("not a PutAssetPropertyValueEntry: ")
    assert words in found.refusal


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"\xff\xfe", b"null", b"[" * 5000, b'{"entryId": "\xff"}']
)
def test_what_is_no_json_is_refused(payload: bytes) -> None:
    found = checked(payload)

    assert found.entry is None
    assert found.refusal is not None


def test_what_aws_s_helper_writes_is_taken_as_it_is() -> None:
    payload = Util.validate_and_serialize_to_json_bytes(
        PutAssetPropertyValueEntry(
            entry_id="e",
            asset_id=ASSET,
            property_id=PROPERTY,
            property_values=[
                AssetPropertyValue(Variant(double_value=0.0), TimeInNanos(NOW_S, 5), Quality.GOOD)
            ],
        )
    )

    found = checked(payload)

    assert found.refusal is None
    assert found.entry is not None
    assert points(found.entry) == {("ids", f"{ASSET} {PROPERTY}", f"{NOW_S}.000000005")}


# --- time window --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset_s", "reason"),
    [
        (-7 * DAY_S - 1, "older than 7 days"),
        (-7 * DAY_S, None),
        (0, None),
        (600, None),
        (601, "more than 10 minutes in the future"),
    ],
)
def test_the_window_is_seven_days_back_and_ten_minutes_ahead(
    offset_s: int, reason: str | None
) -> None:
    found = in_window(check(entry(propertyValues=[value(NOW_S + offset_s)])), NOW_S)

    if reason is None:
        assert found.refusal is None
        assert found.entry is not None
    else:
        assert found.entry is None
        assert found.refusal == f"1 of 1 values are {reason}; SiteWise takes no such values"


def test_nanoseconds_count_at_the_edge_of_the_window() -> None:
    edge = in_window(check(entry(propertyValues=[value(NOW_S + 600, 1000)])), NOW_S)

    assert edge.entry is None


def test_the_values_inside_the_window_are_kept_and_the_others_named() -> None:
    seconds = [NOW_S - 8 * DAY_S, NOW_S - 6 * DAY_S, NOW_S, NOW_S + 3600]

    found = in_window(check(entry(propertyValues=[value(at) for at in seconds])), NOW_S)

    assert found.entry is not None
    kept = [item.timestamp.time_in_seconds for item in found.entry.property_values]
    assert kept == seconds[1:3]
    assert found.refusal == (
        "2 of 4 values are older than 7 days or more than 10 minutes in the future; SiteWise takes "
        "no such values, the others were delivered"
    )


# --- conflicts ----------------------------------------------------------------------------------


def at(name: str, *seconds: int) -> Checked:
    return check(entry(propertyAlias=name, propertyValues=[value(second) for second in seconds]))


@pytest.mark.parametrize(
    ("entries", "alone", "expected"),
    [
        ([at("a", 1), at("a", 2), at("b", 1)], [], [[0, 1, 2]]),
        ([at("a", 1), at("a", 1)], [], [[0], [1]]),
        ([at("a", 1, 2), at("b", 1), at("a", 2, 3), at("a", 1)], [], [[0, 1], [2, 3]]),
        ([at("a", 1)] * 3, [], [[0], [1], [2]]),
        ([at("a", 1), at("b", 1), at("c", 1), at("d", 1)], [1], [[0], [1], [2, 3]]),
        ([at("a", 1), at("b", 1), at("c", 1)], [0, 1], [[0], [1], [2]]),
        ([at("a", 1), Checked(refusal="bad"), at("b", 1)], [], [[0, 1, 2]]),
        ([Checked(refusal="bad")], [], [[0]]),
    ],
)
def test_a_batch_is_cut_where_a_property_would_have_two_values_of_one_time(
    entries: list[Checked], alone: list[int], expected: list[list[int]]
) -> None:
    marks = [position in alone for position in range(len(entries))]

    assert [list(part) for part in parts_without_conflict(entries, marks)] == expected


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 4), st.booleans()), max_size=10))
def test_parts_cover_the_batch_and_hold_no_conflict(shape: list[tuple[str, int, bool]]) -> None:
    entries = [at(name, second) for name, second, _ in shape]

    parts = parts_without_conflict(entries, [is_alone for *_, is_alone in shape])

    assert [position for part in parts for position in part] == list(range(len(shape)))
    for part in parts:
        keys = [shape[position][:2] for position in part]
        assert len(set(keys)) == len(keys)
        assert len(part) == 1 or not any(shape[position][2] for position in part)
