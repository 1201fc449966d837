"""One connection of the sync client, shared by threads at moments that a whole call passes fast."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from scripted_peer import STEP_TIMEOUT_S, ScriptedPeer, Talk, wait_until_in

from penstock.client.endpoint import Endpoint
from penstock.client.link import SEND_AS_READER_BYTES_MAX, Answer, Link, dial
from penstock.errors import ClientClosedException
from penstock.protocol import cbor
from penstock.protocol.codec import append_request

NAME = cbor.text("s")


def test_who_sends_something_large_does_not_keep_others_from_their_answers() -> None:
    small_arrived, small_answered = threading.Event(), threading.Event()

    def script(talk: Talk) -> None:
        talk.shake_hands()
        small = talk.request()
        small_arrived.set()
        wait_until_in(threading.main_thread(), "send")  # and stays there: we do not read
        talk.answer(small, sequenceNumber=1)
        assert small_answered.wait(STEP_TIMEOUT_S)
        talk.answer(talk.request(), sequenceNumber=2)
        talk.wait_for_hang_up()

    with ScriptedPeer(script) as peer, ThreadPoolExecutor(1) as threads:
        endpoint = Endpoint("127.0.0.1", peer.port, None, 3, 60)
        deadline = monotonic() + STEP_TIMEOUT_S
        link = Link(dial(endpoint, 3), endpoint, logging.getLogger(__name__))
        link.handshake(deadline)

        def call_small() -> Answer:
            slot = link.add("small")
            link.send(slot, append_request("small", NAME, b"x"), deadline)
            try:
                return link.answer(slot, deadline)
            finally:
                link.release(slot)
                small_answered.set()

        large = link.register("large")  # the link is idle, so this thread is its reader
        assert large is not None
        small_answer = threads.submit(call_small)
        assert small_arrived.wait(STEP_TIMEOUT_S)
        payload = bytes(64 * 1024 * 1024)
        assert len(payload) > SEND_AS_READER_BYTES_MAX
        link.send(large, append_request("large", NAME, payload), deadline)
        assert small_answer.result(STEP_TIMEOUT_S)[1]["sequenceNumber"] == 1
        assert link.answer(large, deadline)[1]["sequenceNumber"] == 2
        link.release(large)
        link.end(ClientClosedException("the test is over"))
