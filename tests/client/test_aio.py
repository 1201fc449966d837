"""What only the async client does: futures, pipelining, connecting on first use."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any

import pytest
import uvloop
from client_kinds import Belongings
from scripted_peer import (
    STEP_TIMEOUT_S,
    Request,
    ScriptedPeer,
    Talk,
    answer_appends,
    answer_to,
    free_port,
    wire_block,
)

from penstock import (
    AsyncStreamManagerClient,
    ClientClosedException,
    ConnectFailedException,
    ConnectionLostException,
    RequestTimeoutException,
    ServerUnreachableException,
    ValidationException,
)
from penstock.protocol.operations import Operation

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine in a loop of its own; what the loop complains of fails the test."""

    def run_in_loop(coroutine: Coroutine[Any, Any, None]) -> None:
        complaints: list[dict[str, Any]] = []
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.get_loop().set_exception_handler(lambda _, found: complaints.append(found))
            runner.run(asyncio.wait_for(coroutine, STEP_TIMEOUT_S))
            gc.collect()
        assert complaints == []

    return run_in_loop


def test_the_client_connects_on_first_use(run: Run) -> None:
    with ScriptedPeer(answer_appends) as peer:

        async def main() -> None:
            client = AsyncStreamManagerClient(port=peer.port)
            assert peer.connection_count == 0
            assert await client.append_message("s", b"x") == 0
            await client.close()

        run(main())


def test_the_client_is_an_async_context_manager(run: Run) -> None:
    with ScriptedPeer(answer_appends) as peer:

        async def main() -> None:
            async with AsyncStreamManagerClient(port=peer.port) as client:
                assert await client.append_message("s", b"x") == 0
            with pytest.raises(ClientClosedException):
                client.append_message("s", b"x")

        run(main())


def test_appends_need_no_task_and_leave_in_the_order_of_the_calls(run: Run) -> None:
    payloads: list[bytes] = []

    def script(talk: Talk) -> None:
        talk.shake_hands()
        requests = [talk.request() for _ in range(1000)]  # all of them before the first answer
        payloads.extend(request[1]["payload"] for request in requests)
        talk.socket.sendall(
            b"".join(answer_to(request, sequenceNumber=n) for n, request in enumerate(requests))
        )
        talk.wait_for_hang_up()

    with ScriptedPeer(script) as peer:

        async def main() -> None:
            async with AsyncStreamManagerClient(port=peer.port) as client:
                tasks = asyncio.all_tasks()
                futures = [client.append_message("s", b"%d" % n) for n in range(1000)]
                assert asyncio.all_tasks() == tasks
                assert await asyncio.gather(*futures) == list(range(1000))

        run(main())
    assert payloads == [b"%d" % n for n in range(1000)]


def test_calls_made_before_the_connection_is_there_leave_in_order_when_it_is(run: Run) -> None:
    operations: list[Operation] = []

    def script(talk: Talk) -> None:
        talk.shake_hands()
        for sequence, request in enumerate(talk.requests()):
            operations.append(request[0])
            talk.answer(request, sequenceNumber=sequence, streams=[])

    with ScriptedPeer(script) as peer:

        async def main() -> None:
            client = AsyncStreamManagerClient(port=peer.port)
            futures = [client.append_message("s", b"x") for _ in range(3)]
            assert await client.list_streams() == []
            assert await asyncio.gather(*futures) == [0, 1, 2]
            await client.close()

        run(main())
    assert operations == [Operation.AppendMessage] * 3 + [Operation.ListStreams]


def test_wrong_arguments_are_refused_at_the_call(run: Run) -> None:
    async def main() -> None:
        client = AsyncStreamManagerClient(port=free_port())
        with pytest.raises(ValidationException, match="data"):
            client.append_message("s", b"")
        await client.close()

    run(main())


def test_a_failed_attempt_fails_all_calls_that_waited_for_it(run: Run) -> None:
    async def main() -> None:
        client = AsyncStreamManagerClient(port=free_port())
        outcomes = await asyncio.gather(
            *(client.append_message("s", b"x") for _ in range(3)),
            client.list_streams(),
            client.connect(),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [ServerUnreachableException] * 5
        await client.close()

    run(main())


def test_a_caller_who_gives_up_disturbs_nobody(run: Run) -> None:
    gave_up = threading.Event()

    def script(talk: Talk) -> None:
        talk.shake_hands()
        first, second = talk.request(), talk.request()
        assert gave_up.wait(STEP_TIMEOUT_S)
        talk.answer(first, sequenceNumber=1)
        talk.answer(second, sequenceNumber=2)
        talk.wait_for_hang_up()

    with ScriptedPeer(script) as peer:

        async def main() -> None:
            async with AsyncStreamManagerClient(port=peer.port) as client:
                first = client.append_message("s", b"x")
                second = client.append_message("s", b"x")
                first.cancel()
                gave_up.set()
                assert await second == 2

        run(main())


def test_a_caller_who_gives_up_while_connecting_leaves_the_attempt_to_others(run: Run) -> None:
    may_answer = threading.Event()

    def slow(talk: Talk) -> None:
        talk.take_hello()
        assert may_answer.wait(STEP_TIMEOUT_S)
        talk.socket.sendall(talk._connection.reply)
        talk.answer(talk.request(), streams=["s"])
        talk.wait_for_hang_up()

    with ScriptedPeer(slow) as peer:

        async def main() -> None:
            client = AsyncStreamManagerClient(port=peer.port)
            patient = asyncio.ensure_future(client.list_streams())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.list_streams(), 0.1)
            may_answer.set()
            assert await patient == ["s"]
            await client.close()

        run(main())


def test_a_call_that_waits_for_a_connection_times_out(run: Run) -> None:
    gave_up = threading.Event()

    def slow(talk: Talk) -> None:
        talk.take_hello()
        assert gave_up.wait(STEP_TIMEOUT_S)

    with ScriptedPeer(slow) as peer:

        async def main() -> None:
            client = AsyncStreamManagerClient(port=peer.port, request_timeout=0.3)
            outcomes = await asyncio.gather(
                client.append_message("s", b"x"), client.list_streams(), return_exceptions=True
            )
            gave_up.set()
            # The handshake has the same timeout: which of the two ends first is left open.
            for outcome in outcomes:
                assert isinstance(outcome, RequestTimeoutException | ServerUnreachableException)
            await client.close()

        run(main())


def test_closing_ends_an_attempt_to_connect_at_once(run: Run, belongings: Belongings) -> None:
    connected = threading.Event()

    def silent(talk: Talk) -> None:
        talk.take_hello()
        connected.set()
        talk.wait_for_hang_up()

    with ScriptedPeer(silent) as peer:
        before = belongings()

        async def main() -> None:
            client = AsyncStreamManagerClient(port=peer.port)
            append = client.append_message("s", b"x")
            listing = asyncio.ensure_future(client.list_streams())
            await asyncio.to_thread(connected.wait, STEP_TIMEOUT_S)
            started = monotonic()
            await client.close()
            outcomes = await asyncio.gather(append, listing, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [ClientClosedException] * 2
            assert monotonic() - started < 5

        run(main())
        peer.wait_for_end()
        assert belongings() == before


def socket_count() -> int:
    """Loops keep descriptors of other kinds for themselves."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.readlink(link).startswith("socket:") for link in links if os.path.lexists(link))


def test_close_returns_when_the_socket_is_gone(run: Run) -> None:
    with ScriptedPeer(answer_appends) as peer:

        async def main() -> None:
            before = socket_count()
            client = AsyncStreamManagerClient(port=peer.port)
            await client.append_message("s", b"x")
            assert socket_count() == before + 2  # both ends are in this process
            await client.close()
            peer.wait_for_end()
            assert socket_count() == before

        run(main())


def test_a_failed_connect_returns_when_the_socket_is_gone(run: Run) -> None:
    def speak_http(talk: Talk) -> None:
        talk.take_hello()
        talk.socket.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        talk.wait_for_hang_up()

    with ScriptedPeer(speak_http) as peer:

        async def main() -> None:
            before = socket_count()
            client = AsyncStreamManagerClient(port=peer.port)
            with pytest.raises(ConnectFailedException):
                await client.connect()
            peer.wait_for_end()  # blocks the loop: what is not closed now is left open
            assert socket_count() == before
            await client.close()

        run(main())


def test_each_pending_call_has_its_own_deadline(run: Run) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        requests: list[Request] = [talk.request() for _ in range(2)]
        talk.answer(talk.request(), sequenceNumber=len(requests))
        talk.wait_for_hang_up()

    with ScriptedPeer(script) as peer:

        async def main() -> None:
            async with AsyncStreamManagerClient(port=peer.port, request_timeout=0.6) as client:
                started = monotonic()
                first = client.append_message("s", b"x")
                await asyncio.sleep(0.3)
                second = client.append_message("s", b"x")
                with pytest.raises(RequestTimeoutException):
                    await first
                assert 0.59 < monotonic() - started < 0.85
                assert not second.done()
                with pytest.raises(RequestTimeoutException):
                    await second
                assert 0.89 < monotonic() - started < 3
                assert await client.append_message("s", b"x") == 2

        run(main())


def test_a_loop_that_was_busy_elsewhere_does_not_send_into_a_closed_connection(run: Run) -> None:
    def one_append(talk: Talk) -> None:
        talk.shake_hands()
        talk.answer(talk.request(), sequenceNumber=100)

    with ScriptedPeer(one_append, answer_appends) as peer:

        async def main() -> None:
            async with AsyncStreamManagerClient(port=peer.port) as client:
                assert await client.append_message("s", b"x") == 100
                peer.wait_for_end()  # blocks the loop: it cannot notice that the peer hung up
                assert await client.append_message("s", b"x") == 0

        run(main())


def test_breaking_off_a_follower_leaves_a_client_that_works(run: Run) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        talk.answer(talk.request(), blocks=[wire_block(0, [b"a", b"b"])])
        talk.answer(talk.request(), sequenceNumber=2)
        talk.wait_for_hang_up()

    with ScriptedPeer(script) as peer:

        async def main() -> None:
            async with AsyncStreamManagerClient(port=peer.port) as client:
                async for message in client.follow("s"):
                    assert message.payload == b"a"
                    break
                assert await client.append_message("s", b"c") == 2

        run(main())


def test_a_lost_connection_fails_every_future_at_once(run: Run) -> None:
    def hang_up(talk: Talk) -> None:
        talk.shake_hands()
        for _ in range(100):
            talk.request()

    with ScriptedPeer(hang_up) as peer:

        async def main() -> None:
            async with AsyncStreamManagerClient(port=peer.port) as client:
                futures = [client.append_message("s", b"x") for _ in range(100)]
                outcomes = await asyncio.gather(*futures, return_exceptions=True)
                assert {type(outcome) for outcome in outcomes} == {ConnectionLostException}

        run(main())
