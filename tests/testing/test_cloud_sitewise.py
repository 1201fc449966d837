"""IoT SiteWise's stand-in: what it takes, and what it refuses as the service would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cloud_clients import Clients, entry, property_value, refused, send, send_signed

from penstock.testing import LocalCloud

NOW_S = 1_800_000_000
DAY_S = 24 * 3600
ASSET = "a1b2c3d4-0000-4000-8000-00000000000a"
PROPERTY = "a1b2c3d4-0000-4000-8000-00000000000b"


@pytest.fixture
def cloud() -> Iterator[LocalCloud]:
    """A cloud whose clock stands still, for the edges of the time window."""
    with LocalCloud(clock=lambda: NOW_S) as running:
        yield running


def value(time_s: int = NOW_S, content: Any = None, **more: Any) -> dict[str, Any]:
    return property_value(time_s, content, **more)


def put(clients: Clients, *entries: dict[str, Any], **more: Any) -> dict[str, list[str]]:
    """Put entries; the codes of the errors by entry id."""
    answer = clients.sitewise.batch_put_asset_property_value(entries=list(entries), **more)
    return {
        wrong["entryId"]: [error["errorCode"] for error in wrong["errors"]]
        for wrong in answer["errorEntries"]
    }


def put_raw(cloud: LocalCloud, body: Any) -> tuple[int, str, str]:
    """Put what botocore would not let pass; status, code and text of the answer."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = send_signed(cloud, "iotsitewise", "/properties", content)
    return answer.status, answer.headers.get("x-amzn-errortype", ""), answer.json.get("message")


def test_entries_are_kept_in_order(cloud: LocalCloud, clients: Clients) -> None:
    by_id = {
        "entryId": "2",
        "assetId": ASSET,
        "propertyId": PROPERTY,
        "propertyValues": [value(content={"integerValue": -7}, quality="BAD")],
    }
    assert put(clients, entry("1", value(), alias="/plant/a"), by_id) == {}

    first, second = cloud.sitewise.entries()
    assert (first.entry_id, first.property_name) == ("1", "/plant/a")
    assert first.values == ({"value": {"doubleValue": 1.5}, "timestamp": {"timeInSeconds": NOW_S}},)
    assert (second.entry_id, second.property_name) == ("2", f"{ASSET}/{PROPERTY}")
    assert second.values[0]["quality"] == "BAD"


@pytest.mark.parametrize(
    "content",
    [
        {"stringValue": ""},
        {"stringValue": "x" * 1024},
        {"integerValue": -(2**31)},
        {"doubleValue": 1e10},
        {"doubleValue": float("nan")},
        {"booleanValue": False},
        {"nullValue": {"valueType": "D"}},
    ],
)
def test_every_type_of_value_is_taken(
    cloud: LocalCloud, clients: Clients, content: dict[str, Any]
) -> None:
    assert put(clients, entry("1", value(content=content))) == {}
    assert len(cloud.sitewise.entries()) == 1


@pytest.mark.parametrize("time_s", [NOW_S - 7 * DAY_S, NOW_S, NOW_S + 600])
def test_the_time_window_includes_its_edges(clients: Clients, time_s: int) -> None:
    assert put(clients, entry("1", value(time_s))) == {}


@pytest.mark.parametrize("time_s", [1, NOW_S - 7 * DAY_S - 1, NOW_S + 601])
def test_a_timestamp_outside_the_window_fails_its_entry_alone(
    cloud: LocalCloud, clients: Clients, time_s: int
) -> None:
    errors = put(clients, entry("old", value(time_s)), entry("new", value()))
    assert errors == {"old": ["TimestampOutOfRangeException"]}
    assert [taken.entry_id for taken in cloud.sitewise.entries()] == ["new"]


def test_an_error_names_the_timestamps_it_is_about(clients: Clients) -> None:
    answer = clients.sitewise.batch_put_asset_property_value(entries=[entry("1", value(1))])
    error = answer["errorEntries"][0]["errors"][0]
    assert error["timestamps"] == [{"timeInSeconds": 1}]
    assert error["errorMessage"]


def test_one_wrong_value_fails_its_whole_entry(cloud: LocalCloud, clients: Clients) -> None:
    assert put(clients, entry("1", value(), value(1))) == {"1": ["TimestampOutOfRangeException"]}
    assert cloud.sitewise.entries() == []


def test_partial_processing_takes_the_right_values_of_an_entry(
    cloud: LocalCloud, clients: Clients
) -> None:
    errors = put(clients, entry("1", value(), value(1)), enablePartialEntryProcessing=True)
    assert errors == {"1": ["TimestampOutOfRangeException"]}
    taken = cloud.sitewise.entries()[0].values
    assert [content["timestamp"]["timeInSeconds"] for content in taken] == [NOW_S]


def test_the_same_property_and_timestamp_twice_is_a_conflict(
    cloud: LocalCloud, clients: Clients
) -> None:
    errors = put(
        clients,
        entry("1", value(), alias="/a"),
        entry("2", value(), alias="/a"),
        entry("3", value(), alias="/b"),
        entry("4", value(NOW_S - 1), alias="/a"),
    )
    assert errors == {"2": ["ConflictingOperationException"]}
    assert [taken.entry_id for taken in cloud.sitewise.entries()] == ["1", "3", "4"]


def test_timestamps_that_differ_by_a_nanosecond_are_not_equal(clients: Clients) -> None:
    later = {"timeInSeconds": NOW_S, "offsetInNanos": 1}
    values = [value(), {**value(), "timestamp": later}]
    assert put(clients, *(entry(str(i), v, alias="/a") for i, v in enumerate(values))) == {}


def test_the_same_timestamp_in_another_request_is_fine(clients: Clients) -> None:
    for _ in range(2):
        assert put(clients, entry("1", value())) == {}


def test_an_entry_id_that_comes_twice_refuses_the_request(
    cloud: LocalCloud, clients: Clients
) -> None:
    with refused("ConflictingOperationException", 409) as caught:
        put(clients, entry("1", alias="/a"), entry("1", alias="/b"))
    assert isinstance(caught.value, clients.sitewise.exceptions.ConflictingOperationException)
    assert cloud.sitewise.entries() == []


def test_properties_can_be_limited_to_those_that_exist(cloud: LocalCloud, clients: Clients) -> None:
    cloud.sitewise.properties = {"/known"}
    errors = put(
        clients, entry("1", value(), alias="/unknown"), entry("2", value(), alias="/known")
    )
    assert errors == {"1": ["ResourceNotFoundException"]}
    assert [taken.entry_id for taken in cloud.sitewise.entries()] == ["2"]


def changed(**fields: Any) -> dict[str, Any]:
    """An entry that is right but for these fields."""
    return {"entries": [{**entry("1", value()), **fields}]}


def changed_value(**fields: Any) -> dict[str, Any]:
    return changed(propertyValues=[{**value(), **fields}])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        ({}, "entries is required"),
        ({"entries": []}, "0 members, not 1 to 10"),
        ({"entries": "x"}, "entries is not a list"),
        ({"entries": ["x"]}, "entries[0] is not an object"),
        ({"entries": [entry(f"{n}", value()) for n in range(11)]}, "11 members, not 1 to 10"),
        (changed(entryId=""), "length of entries[0].entryId is 0, below 1"),
        (changed(entryId="x" * 65), "is 65, above 64"),
        (changed(entryId="a b"), "entries[0].entryId does not match"),
        (changed(entryId=7), "entries[0].entryId is not a string"),
        (changed(entryId=None), "entries[0].entryId is required"),
        (changed(propertyAlias="a\tb"), "propertyAlias does not match"),
        (changed(propertyAlias="x" * 2049), "is 2049, above 2048"),
        (changed(propertyAlias=None), "needs either propertyAlias or both"),
        (changed(assetId=ASSET), "needs either propertyAlias or both"),
        (changed(assetId=ASSET, propertyId=PROPERTY), "needs either propertyAlias or both"),
        (changed(propertyAlias=None, assetId=ASSET), "needs either propertyAlias or both"),
        (changed(propertyAlias=None, assetId="x", propertyId=PROPERTY), "is 1, below 36"),
        (changed(propertyAliases="/a"), "entries[0].propertyAliases is unknown"),
        (changed(propertyValues=[]), "propertyValues has 0 members"),
        (
            changed(propertyValues=[value(NOW_S - n) for n in range(11)]),
            "propertyValues has 11 members",
        ),
        (changed_value(value={}), "value has 0 types"),
        (changed_value(value={"doubleValue": 1, "integerValue": 1}), "value has 2 types"),
        (changed_value(value={"integerValue": 2**31}), "above 2147483647"),
        (changed_value(value={"integerValue": 1.5}), "integerValue is not a whole number"),
        (changed_value(value={"integerValue": True}), "integerValue is not a whole number"),
        (changed_value(value={"doubleValue": "1.5"}), "doubleValue is not a number"),
        (changed_value(value={"doubleValue": 1e11}), "doubleValue is beyond 1e+10"),
        (changed_value(value={"booleanValue": "true"}), "neither true nor false"),
        (changed_value(value={"stringValue": "x" * 1025}), "1025 characters, above 1024"),
        (changed_value(value={"stringValue": "a\x00"}), "control character"),
        (changed_value(value={"stringValue": "a\x7f"}), "control character"),
        (changed_value(value={"nullValue": {"valueType": "X"}}), "valueType is none of D, B"),
        (changed_value(quality="FINE"), "quality is none of GOOD, BAD, UNCERTAIN"),
        (changed_value(timestamp={}), "timestamp.timeInSeconds is required"),
        (changed_value(timestamp={"timeInSeconds": 0}), "timeInSeconds is 0, below 1"),
        (
            changed_value(timestamp={"timeInSeconds": NOW_S, "offsetInNanos": 10**9}),
            "offsetInNanos is 1000000000, above 999999999",
        ),
        ({"entries": [entry("1")], "enablePartialEntryProcessing": "yes"}, "neither true nor"),
    ],
)
def test_a_request_that_breaks_the_model_is_refused_with_the_place_and_the_rule(
    cloud: LocalCloud, body: Any, reason: str
) -> None:
    status, code, text = put_raw(cloud, body)
    assert (status, code) == (400, "InvalidRequestException")
    assert reason in text
    assert cloud.sitewise.entries() == []


def test_a_refusal_is_botocores_exception_of_that_name(clients: Clients) -> None:
    with refused("InvalidRequestException", 400) as caught:
        put(clients, entry("a b", value()))
    assert isinstance(caught.value, clients.sitewise.exceptions.InvalidRequestException)


def test_single_entries_fail_by_a_knob(cloud: LocalCloud, clients: Clients) -> None:
    cloud.sitewise.fail_records(containing="/plant/2", code="ThrottlingException", times=1)
    batch = [entry("1", value()), entry("2", value()), entry("3", value())]
    assert put(clients, *batch) == {"2": ["ThrottlingException"]}
    assert [taken.entry_id for taken in cloud.sitewise.entries()] == ["1", "3"]
    assert put(clients, *batch) == {}


def test_a_knob_fails_an_entry_as_a_whole_even_with_partial_processing(
    cloud: LocalCloud, clients: Clients
) -> None:
    cloud.sitewise.fail_records(indexes=[0])
    errors = put(clients, entry("1", value(), value(NOW_S - 1)), enablePartialEntryProcessing=True)
    assert errors == {"1": ["InternalFailureException"] * 2}
    assert cloud.sitewise.entries() == []


def test_other_operations_are_not_pretended(cloud: LocalCloud, clients: Clients) -> None:
    with refused("InvalidRequestException", 400) as caught:
        clients.sitewise.list_assets()
    assert "not served by the local cloud" in str(caught.value)


def test_an_unsigned_request_is_refused(cloud: LocalCloud) -> None:
    answer = send(f"{cloud.endpoint}/properties", b"{}")
    assert answer.status == 403
    assert answer.headers["x-amzn-errortype"] == "MissingAuthenticationTokenException"
