"""How the threads that share a sync client share its connection."""

from __future__ import annotations

import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from time import sleep

import pytest
from client_kinds import Belongings
from scripted_peer import (
    STEP_TIMEOUT_S,
    Request,
    ScriptedPeer,
    Talk,
    answer_appends,
    answer_to,
    wait_until_in,
)

from penstock import (
    ClientClosedException,
    ConnectionLostException,
    ReadMessagesOptions,
    RequestTimeoutException,
    StreamManagerClient,
)
from penstock.protocol.operations import Operation


def test_the_client_is_a_context_manager() -> None:
    with ScriptedPeer(answer_appends) as peer:
        with StreamManagerClient(port=peer.port) as client:
            assert client.append_message("s", b"x") == 0
        with pytest.raises(ClientClosedException):
            client.append_message("s", b"x")


def test_a_client_has_no_thread_of_its_own() -> None:
    with ScriptedPeer(answer_appends) as peer:
        before = set(threading.enumerate())
        with StreamManagerClient(port=peer.port) as client:
            client.append_message("s", b"x")
            assert set(threading.enumerate()) == before


def test_a_read_that_waits_does_not_delay_an_append() -> None:
    appended = threading.Event()
    reading = threading.Event()

    def script(talk: Talk) -> None:
        talk.shake_hands()
        read = talk.request()
        reading.set()
        for sequence in range(100):
            talk.answer(talk.request(), sequenceNumber=sequence)
        assert appended.wait(STEP_TIMEOUT_S)
        talk.answer(read, status=13, errorMessage="nothing came")

    with (
        ScriptedPeer(script) as peer,
        StreamManagerClient(port=peer.port) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        wait = ReadMessagesOptions(read_timeout_millis=50_000)
        read = threads.submit(client.read_messages, "s", wait)
        assert reading.wait(STEP_TIMEOUT_S)
        assert [client.append_message("s", b"x") for _ in range(100)] == list(range(100))
        appended.set()
        assert "nothing came" in str(read.exception(STEP_TIMEOUT_S))


def test_when_the_thread_that_reads_times_out_another_one_reads_on() -> None:
    first_sent = threading.Event()
    first_gave_up = threading.Event()

    def script(talk: Talk) -> None:
        talk.shake_hands()
        talk.request()
        first_sent.set()
        second = talk.request()
        assert first_gave_up.wait(STEP_TIMEOUT_S)
        talk.answer(second, sequenceNumber=2)
        talk.wait_for_hang_up()

    with (
        ScriptedPeer(script) as peer,
        ThreadPoolExecutor(2) as threads,
        StreamManagerClient(port=peer.port, request_timeout=1) as client,
    ):
        first = threads.submit(client.append_message, "s", b"x")
        assert first_sent.wait(STEP_TIMEOUT_S)
        threading.Event().wait(0.5)  # the second call must outlive the first one
        second = threads.submit(client.append_message, "s", b"x")
        assert isinstance(first.exception(STEP_TIMEOUT_S), RequestTimeoutException)
        first_gave_up.set()
        assert second.result(STEP_TIMEOUT_S) == 2


def test_a_thread_that_waits_times_out_while_another_one_reads() -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        for _ in range(2):
            talk.request()
        talk.wait_for_hang_up()

    with (
        ScriptedPeer(script) as peer,
        ThreadPoolExecutor(2) as threads,
        StreamManagerClient(port=peer.port, request_timeout=0.5) as client,
    ):
        calls = [threads.submit(client.append_message, "s", b"x") for _ in range(2)]
        for call in calls:
            assert isinstance(call.exception(STEP_TIMEOUT_S), RequestTimeoutException)


def test_many_threads_get_their_own_answers_however_these_are_mixed() -> None:
    thread_count, calls_per_thread = 16, 100
    dice = random.Random(1)

    def script(talk: Talk) -> None:
        """Of the requests at hand answer some, shuffled, and cut the bytes at an odd place."""
        talk.shake_hands()
        held: list[Request] = []
        while True:
            while not held or talk.has_request():
                held.append(talk.request())
            dice.shuffle(held)
            chosen_count = dice.randint(1, len(held))
            chosen, held = held[:chosen_count], held[chosen_count:]
            data = b"".join(
                answer_to(request, sequenceNumber=int(request[1]["payload"])) for request in chosen
            )
            cut = dice.randint(0, len(data))
            talk.socket.sendall(data[:cut])
            talk.socket.sendall(data[cut:])

    with ScriptedPeer(script) as peer, StreamManagerClient(port=peer.port) as client:

        def work(thread: int) -> None:
            for n in range(calls_per_thread):
                number = thread * calls_per_thread + n
                assert client.append_message("s", b"%d" % number) == number

        with ThreadPoolExecutor(thread_count) as threads:
            for outcome in threads.map(work, range(thread_count)):
                assert outcome is None


MAIN = threading.main_thread()


@pytest.fixture
def interrupt_main_thread() -> Iterator[Callable[[], None]]:
    """Ctrl-C, without a keyboard."""

    def interrupt(number: int, stack: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    assert MAIN.ident is not None
    ident = MAIN.ident
    yield lambda: signal.pthread_kill(ident, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def test_ctrl_c_in_the_thread_that_reads_leaves_a_client_that_works(
    interrupt_main_thread: Callable[[], None],
) -> None:
    main_reads = threading.Event()

    def silent(talk: Talk) -> None:
        talk.shake_hands()
        talk.request()
        wait_until_in(MAIN, "_receive")
        main_reads.set()
        talk.request()
        interrupt_main_thread()
        talk.wait_for_hang_up()

    with (
        ScriptedPeer(silent, answer_appends) as peer,
        ThreadPoolExecutor(1) as threads,
        StreamManagerClient(port=peer.port) as client,
    ):

        def wait_too() -> int:
            assert main_reads.wait(STEP_TIMEOUT_S)
            return client.append_message("s", b"x")

        other = threads.submit(wait_too)
        with pytest.raises(KeyboardInterrupt):
            client.append_message("s", b"x")
        # Bytes may have been lost with the reader: nobody can go on where it was interrupted.
        assert isinstance(other.exception(STEP_TIMEOUT_S), ConnectionLostException)
        assert client.append_message("s", b"x") == 0


def test_ctrl_c_in_a_thread_that_only_waits_does_not_disturb_the_others(
    interrupt_main_thread: Callable[[], None],
) -> None:
    other_reads = threading.Event()
    readers: list[threading.Thread] = []

    def script(talk: Talk) -> None:
        talk.shake_hands()
        first = talk.request()
        wait_until_in(readers[0], "_receive")
        other_reads.set()
        talk.request()
        wait_until_in(MAIN, "_queue_up")
        interrupt_main_thread()
        talk.answer(first, sequenceNumber=1)
        talk.answer(talk.request(), sequenceNumber=3)

    with (
        ScriptedPeer(script) as peer,
        ThreadPoolExecutor(1) as threads,
        StreamManagerClient(port=peer.port) as client,
    ):

        def read_for_all() -> int:
            readers.append(threading.current_thread())
            return client.append_message("s", b"x")

        other = threads.submit(read_for_all)
        assert other_reads.wait(STEP_TIMEOUT_S)
        with pytest.raises(KeyboardInterrupt):
            client.append_message("s", b"x")
        assert other.result(STEP_TIMEOUT_S) == 1
        assert client.append_message("s", b"x") == 3


def test_ctrl_c_while_sending_leaves_a_client_that_works(
    interrupt_main_thread: Callable[[], None],
) -> None:
    def deaf(talk: Talk) -> None:
        talk.shake_hands()
        wait_until_in(MAIN, "send")
        interrupt_main_thread()
        talk.request()
        raise AssertionError("half a request is no request")

    with (
        ScriptedPeer(deaf, answer_appends) as peer,
        StreamManagerClient(port=peer.port) as client,
    ):
        with pytest.raises(KeyboardInterrupt):
            client.append_message("s", bytes(64 * 1024 * 1024))
        assert client.append_message("s", b"x") == 0


def test_a_connection_that_comes_about_after_close_is_closed_too(belongings: Belongings) -> None:
    with ScriptedPeer(answer_appends) as peer:
        client = StreamManagerClient(port=peer.port, connect_timeout=10)
        client.append_message("s", b"x")
    callers: list[threading.Thread] = []

    def call() -> int:
        callers.append(threading.current_thread())
        return client.append_message("s", b"x")

    with (
        socket.create_server(("127.0.0.1", peer.port), backlog=0) as listener,
        ExitStack() as stack,
        ThreadPoolExecutor(1) as threads,
    ):
        for _ in range(4):  # fill the listener's queue
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        late = threads.submit(call)
        while not callers:
            sleep(0.001)
        wait_until_in(callers[0], "create_connection")
        client.close()
        before = belongings()
        while not late.done():  # empty the queue, until the client's turn has come
            with suppress(TimeoutError):
                listener.settimeout(0.1)
                listener.accept()[0].close()
        assert isinstance(late.exception(), ClientClosedException)
        assert belongings()[1] == before[1] - 1, "the socket that was connecting is closed"


def test_a_large_request_and_a_large_answer_pass_each_other() -> None:
    payload = random.Random(2).randbytes(8 * 1024 * 1024)

    def script(talk: Talk) -> None:
        talk.shake_hands(extensions=())
        _, values = request = talk.request()
        assert values["payload"] == payload
        talk.answer(request, sequenceNumber=3)
        request = talk.request()
        assert request[0] == Operation.ReadMessages
        message = {"streamName": "s", "sequenceNumber": 3, "ingestTime": 1, "payload": payload}
        talk.answer(request, messages=[message])

    with ScriptedPeer(script) as peer, StreamManagerClient(port=peer.port) as client:
        assert client.append_message("s", payload) == 3
        assert client.read_messages("s")[0].payload == payload


def test_a_thread_that_must_wait_for_another_ones_sending_gives_up_in_time() -> None:
    gave_up = threading.Event()

    def deaf(talk: Talk) -> None:
        talk.shake_hands()
        assert gave_up.wait(STEP_TIMEOUT_S)

    with (
        ScriptedPeer(deaf) as peer,
        ThreadPoolExecutor(2) as threads,
        StreamManagerClient(port=peer.port, request_timeout=0.5) as client,
    ):
        calls = [
            threads.submit(client.append_message, "s", bytes(64 * 1024 * 1024)) for _ in range(2)
        ]
        errors = {type(call.exception(STEP_TIMEOUT_S)) for call in calls}
        gave_up.set()
        # The second one is told of the lost connection, or its own time is over: whichever first.
        assert RequestTimeoutException in errors
        assert errors <= {RequestTimeoutException, ConnectionLostException}
