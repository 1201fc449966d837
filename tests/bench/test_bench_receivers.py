"""What exports are measured with: receivers that behave as told, and the growth of a series."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest
from bench.sink import Manner, Receiver, sink_process
from bench.steady import growth, per_second

TWO_MESSAGES = b'[{"sequenceNumber": 1}, {"sequenceNumber": 2}]'


def status_of(receiver: Receiver) -> int:
    """What it answers to a request with two messages."""
    connection = http.client.HTTPConnection(urlsplit(receiver.url).netloc, timeout=0.5)
    try:
        connection.request("POST", "/", TWO_MESSAGES)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_receiver_counts_what_it_accepts_and_only_that() -> None:
    with sink_process(2) as sink:
        sound, faulty = sink.receivers
        faulty.behave(Manner.REFUSE)

        assert [status_of(sound), status_of(faulty)] == [200, 400]
        assert [sound.message_count, faulty.message_count] == [2, 0]
        assert 0 < sound.last_arrival < faulty.last_arrival

        faulty.behave(Manner.FAIL)
        assert status_of(faulty) == 503

        faulty.behave(Manner.HANG)
        with pytest.raises(TimeoutError):
            status_of(faulty)

        faulty.behave(Manner.ACCEPT)
        assert status_of(faulty) == 200
        assert [sound.message_count, sink.message_count] == [2, 4]


def test_growth_compares_the_last_third_with_the_first() -> None:
    assert growth([10, 10, 90, 90, 15, 15]) == 1.5
    assert per_second([3, 5, 7, 9], 10) == pytest.approx(0.2)
