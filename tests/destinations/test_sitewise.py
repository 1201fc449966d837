"""Exports to SiteWise, against a stand-in that is as strict as the service."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate

import pytest
from scripted_service import Answer, Close, Hang, Request, ScriptedService
from sitewise_service import SiteWise, error
from surroundings import Surroundings, batch_of

from penstock.destinations.base import Blocked, Delivery, Timeouts, Transient
from penstock.destinations.sitewise import SiteWiseDestination
from penstock.model import IoTSiteWiseConfig

DAY_S = 86_400
ASSET = "11111111-2222-3333-4444-55555555555a"
PROPERTY = "11111111-2222-3333-4444-55555555555b"


@contextmanager
def destination(**options: Timeouts) -> Iterator[SiteWiseDestination]:
    opened = SiteWiseDestination(IoTSiteWiseConfig("sw"), Surroundings().context(), **options)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def sitewise() -> SiteWise:
    return SiteWise()


@pytest.fixture
def scripted(
    aws: None, service: ScriptedService, sitewise: SiteWise, monkeypatch: pytest.MonkeyPatch
) -> ScriptedService:
    monkeypatch.setenv("AWS_ENDPOINT_URL_IOTSITEWISE", service.url)
    service.answer = sitewise.answer
    return service


def message(alias: str, *seconds: int, entry_id: str = "same", **fields: object) -> bytes:
    values = [
        {"value": {"integerValue": n}, "timestamp": {"timeInSeconds": at}}
        for n, at in enumerate(seconds)
    ]
    body = {"entryId": entry_id, "propertyAlias": alias, "propertyValues": values, **fields}
    return json.dumps({name: item for name, item in body.items() if item is not None}).encode()


def entries_in(request: Request) -> list[str]:
    return [
        entry.get("propertyAlias") or f"{entry['assetId']} {entry['propertyId']}"
        for entry in request.json()["entries"]
    ]


def now_s() -> int:
    return int(time.time())


def test_ten_entries_travel_in_one_request_whatever_ids_the_application_gave_them(
    scripted: ScriptedService, sitewise: SiteWise
) -> None:
    now = now_s()
    messages = [message(f"/p/{n}", now - 60, now) for n in range(10)]

    with destination() as export:
        assert export.send(batch_of(*messages)) == Delivery()

    (request,) = scripted.requests
    assert [entry["entryId"] for entry in request.json()["entries"]] == [
        str(number) for number in range(100, 110)
    ]
    assert len(sitewise.values) == 20


def test_values_of_one_property_and_time_go_in_different_requests_in_order(
    scripted: ScriptedService, sitewise: SiteWise
) -> None:
    now = now_s()
    messages = [
        message("/a", now),
        message("/b", now),
        message("/a", now, now + 1),
        message("/b", now + 1),
        message("/b", now),
    ]

    with destination() as export:
        assert export.send(batch_of(*messages)) == Delivery()

    assert [entries_in(request) for request in scripted.requests] == [
        ["/a", "/b"],
        ["/a", "/b", "/b"],
    ]
    assert sitewise.values["/a", now, 0] == {"integerValue": 0}


def test_two_names_of_one_property_that_conflict_are_sent_again_one_by_one(
    scripted: ScriptedService, sitewise: SiteWise
) -> None:
    now = now_s()
    sitewise.same_property["/alias"] = f"{ASSET} {PROPERTY}"
    by_ids = message("", now, assetId=ASSET, propertyId=PROPERTY, propertyAlias=None)

    with destination() as export:
        delivery = export.send(batch_of(message("/alias", now), by_ids, message("/c", now)))
        assert set(delivery.retry) == {0, 1}
        assert "ConflictingOperationException" in delivery.retry[0]
        assert export.send(batch_of(message("/alias", now), by_ids)) == Delivery()

    assert [len(entries_in(request)) for request in scripted.requests] == [3, 1, 1]


def test_messages_that_break_a_rule_are_refused_and_never_sent(
    scripted: ScriptedService, sitewise: SiteWise
) -> None:
    now = now_s()

    with destination() as export:
        delivery = export.send(
            batch_of(b"no JSON", message("/a", now), message("/b"), message("/c", now))
        )

    assert set(delivery.refused) == {0, 2}
    assert "not a PutAssetPropertyValueEntry" in delivery.refused[0]
    assert "propertyValues" in delivery.refused[2]
    assert [entries_in(request) for request in scripted.requests] == [["/a", "/c"]]


def test_nothing_is_sent_when_nothing_is_left(scripted: ScriptedService) -> None:
    with destination() as export:
        assert set(export.send(batch_of(b"1", b"2")).refused) == {0, 1}

    assert scripted.requests == []


def test_values_outside_the_time_window_are_refused_with_that_reason_and_the_others_delivered(
    scripted: ScriptedService, sitewise: SiteWise
) -> None:
    now = now_s()
    messages = [
        message("/old", now - 8 * DAY_S),
        message("/mixed", now - 8 * DAY_S, now),
        message("/new", now + 3600),
        message("/good", now),
    ]

    with destination() as export:
        delivery = export.send(batch_of(*messages))

    assert delivery.retry == {}
    assert set(delivery.refused) == {0, 1, 2}
    assert "older than 7 days" in delivery.refused[0]
    assert "1 of 2 values are older than 7 days" in delivery.refused[1]
    assert "the others were delivered" in delivery.refused[1]
    assert "more than 10 minutes in the future" in delivery.refused[2]
    assert set(sitewise.values) == {("/mixed", now, 0), ("/good", now, 0)}


@pytest.mark.parametrize("ahead_s", [-30 * DAY_S, 30 * DAY_S])
def test_a_machine_whose_clock_is_wrong_refuses_nothing_that_the_service_would_take(
    scripted: ScriptedService, sitewise: SiteWise, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    now = now_s()
    # The stand-in lives in this process and shares its clock, so it is the values and the
    # service's clock that are shifted: seen from here, they belong to another month.
    there_s = now + ahead_s
    monkeypatch.setattr(sitewise, "now_s", lambda: there_s)
    scripted.answer = lambda request: with_date(sitewise.answer(request), there_s)

    with destination() as export:
        delivery = export.send(batch_of(message("/a", there_s), message("/b", now)))

    assert set(delivery.refused) == {1}
    assert set(sitewise.values) == {("/a", there_s, 0)}


def with_date(answer: Answer, at_s: int) -> Answer:
    return Answer(
        answer.status, answer.body, {**answer.headers, "Date": formatdate(at_s, usegmt=True)}
    )


def test_values_that_only_the_service_finds_out_of_range_are_refused_with_its_reason(
    scripted: ScriptedService, sitewise: SiteWise
) -> None:
    now = now_s()
    sitewise.now_s = lambda: now + 2 * DAY_S

    with destination() as export:
        delivery = export.send(batch_of(message("/a", now - 6 * DAY_S, now)))

    assert delivery.refused == {
        0: f"TimestampOutOfRangeException: Because. (values at {now - 6 * DAY_S} s)"
    }
    assert set(sitewise.values) == {("/a", now, 0)}


@pytest.mark.parametrize(
    ("code", "fate"),
    [
        ("ThrottlingException", "retry"),
        ("InternalFailureException", "retry"),
        ("ServiceUnavailableException", "retry"),
        ("LimitExceededException", "retry"),
        ("ConflictingOperationException", "retry"),
        ("InvalidRequestException", "refused"),
        ("ResourceNotFoundException", "refused"),
        ("TimestampOutOfRangeException", "refused"),
        ("AccessDeniedException", "refused"),
    ],
)
def test_entry_errors_are_told_message_by_message(
    scripted: ScriptedService, sitewise: SiteWise, code: str, fate: str
) -> None:
    now = now_s()
    sitewise.entry_errors["/bad"] = code

    with destination() as export:
        delivery = export.send(
            batch_of(message("/a", now), message("/bad", now), message("/c", now))
        )

    assert {"retry": delivery.retry, "refused": delivery.refused}[fate] == {1: f"{code}: Because."}
    assert set(sitewise.values) == {("/a", now, 0), ("/c", now, 0)}


def test_an_entry_with_a_passing_and_a_lasting_error_is_tried_again(
    scripted: ScriptedService,
) -> None:
    errors = [
        {"errorCode": code, "errorMessage": "Because.", "timestamps": []}
        for code in ("InvalidRequestException", "ThrottlingException")
    ]
    scripted.next.append(Answer.json({"errorEntries": [{"entryId": "100", "errors": errors}]}))

    with destination() as export:
        delivery = export.send(batch_of(message("/a", now_s())))

    assert set(delivery.retry) == {0}
    assert delivery.refused == {}


def test_access_that_was_never_given_blocks_the_export_and_later_refuses_single_messages(
    scripted: ScriptedService, sitewise: SiteWise
) -> None:
    now = now_s()
    sitewise.entry_errors["/secret"] = "AccessDeniedException"

    with destination() as export:
        with pytest.raises(Blocked, match="allow iotsitewise:BatchPutAssetPropertyValue"):
            export.send(batch_of(message("/secret", now)))
        assert export.send(batch_of(message("/a", now))) == Delivery()
        delivery = export.send(batch_of(message("/secret", now)))

    assert delivery.refused == {0: "AccessDeniedException: Because."}


def test_an_entry_that_spoils_a_request_is_found_and_refused_alone(
    scripted: ScriptedService, sitewise: SiteWise
) -> None:
    now = now_s()
    messages = [message(f"/{n}", now) for n in range(9)]
    messages.insert(4, message("/forbidden", now))

    with destination() as export:
        delivery = export.send(batch_of(*messages))

    assert delivery == Delivery(
        refused={4: "InvalidRequestException: a name that spoils the request"}
    )
    assert len(sitewise.values) == 9


def test_what_was_delivered_before_a_failure_is_not_sent_again(
    scripted: ScriptedService, sitewise: SiteWise
) -> None:
    now = now_s()
    messages = [message("/a", now), message("/a", now), message("/b", now)]
    answers = iter([sitewise.answer, lambda _: error("ThrottlingException", status=429)])
    scripted.answer = lambda request: next(answers)(request)

    with destination() as export:
        delivery = export.send(batch_of(*messages))

    assert set(delivery.retry) == {1, 2}
    assert isinstance(delivery.error, Transient)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (error("ThrottlingException", status=429), Transient, "Throttling"),
        (error("LimitExceededException", status=410), Transient, "LimitExceeded"),
        (error("InternalFailureException", status=500), Transient, "InternalFailure"),
        (error("ConflictingOperationException", status=409), Transient, "Conflicting"),
        (error("ExpiredTokenException", status=403), Transient, "expired"),
        (error("AccessDeniedException", status=403), Blocked, "allow iotsitewise:"),
        (error("UnrecognizedClientException", status=403), Blocked, "credentials"),
        (Answer(200, b""), Transient, "makes no sense"),
        (Answer.json({}), Transient, "makes no sense"),
        (Answer.json({"errorEntries": [{"entryId": "?", "errors": []}]}), Transient, "unknown"),
        (Close(100, Answer.json({"errorEntries": []})), Transient, "SiteWise"),
    ],
)
def test_a_request_that_fails_as_a_whole_settles_nothing(
    scripted: ScriptedService, answer: Answer | Close, kind: type[Exception], words: str
) -> None:
    scripted.next.append(answer)
    batch = batch_of(message("/a", now_s()))

    with destination() as export:
        with pytest.raises(kind, match=words):
            export.send(batch)
        assert export.send(batch) == Delivery()


def test_a_service_that_hangs_costs_the_timeout(scripted: ScriptedService) -> None:
    scripted.next.append(Hang())

    with (
        destination(timeouts=Timeouts(2.0, 0.3)) as export,
        pytest.raises(Transient, match=r"no answer within 0\.3 s"),
    ):
        export.send(batch_of(message("/a", now_s())))


def test_the_service_s_own_host_gets_its_prefix(
    aws: None, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", service.url)  # nothing may leave this machine
    service.next.append(Answer(403))

    with destination() as export, pytest.raises(Transient):
        export.send(batch_of(message("/a", now_s())))

    assert service.requests[0].target == "data.iotsitewise.eu-west-1.amazonaws.com:443"


def test_a_check_sends_no_entry(scripted: ScriptedService) -> None:
    with destination() as export:
        export.check()
        scripted.next.append(error("AccessDeniedException", status=403))
        with pytest.raises(Blocked):
            export.check()

    assert [request.json()["entries"] for request in scripted.requests] == [[], []]
