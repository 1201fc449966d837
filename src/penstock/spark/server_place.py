"""A server as a place to read from."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from penstock.block import ENTRY, Block
from penstock.client.sync import StreamManagerClient
from penstock.errors import (
    ConnectionLostException,
    MessageStoreReadErrorException,
    NotEnoughMessagesException,
    RequestTimeoutException,
    ResourceNotFoundException,
    ServerUnreachableException,
    StreamManagerException,
    UnauthorizedException,
)
from penstock.model import ReadMessagesOptions
from penstock.spark.options import ServerAddress
from penstock.spark.places import (
    BLOCK_MESSAGES_MAX,
    RESTART_S,
    Bounds,
    Unreachable,
    cut_at,
    patiently,
)
from penstock.spark.trouble import SourceError

# Generous for a busy machine; a device that is cut off costs a survey this long.
CONNECT_TIMEOUT_S = 5.0


class ServerPlace:
    """One connection to a server."""

    def __init__(self, address: ServerAddress) -> None:
        self.name = address.name
        self._address = address
        with self._translated():
            self._client = StreamManagerClient(
                address.host, address.port, CONNECT_TIMEOUT_S, auth_token=address.token
            )

    def streams(self) -> list[str]:
        with self._translated():
            return self._client.list_streams()

    def bounds(self, stream: str) -> Bounds | None:
        try:
            with self._translated(stream):
                status = self._client.describe_message_stream(stream).storage_status
        except ResourceNotFoundException:
            return None
        return Bounds(
            status.oldest_sequence_number, status.newest_sequence_number + 1, status.total_bytes
        )

    def time_ms(self, stream: str, sequence: int) -> int | None:
        for block in self._read(stream, sequence, 1):
            return int(ENTRY.unpack_from(block.index)[1])
        return None

    def times_within(
        self, stream: str, first: int, stop: int, from_ms: int | None, before_ms: int | None
    ) -> list[tuple[int, int]]:
        # The clock may have stepped back anywhere, and a server does not send its index alone.
        return [(first, stop)]

    def blocks(self, stream: str, first: int, stop: int) -> Iterator[Block]:
        """The next answer is on its way while Spark takes the last one."""
        with ThreadPoolExecutor(1, thread_name_prefix="penstock-ahead") as ahead:
            coming = ahead.submit(self._read, stream, first, stop - first)
            while found := coming.result():
                first = found[-1].next_sequence
                if first < stop:
                    coming = ahead.submit(self._read, stream, first, stop - first)
                for block in found:
                    part = cut_at(block, stop)
                    if part is not None:
                        yield part
                if first >= stop:
                    return

    def close(self) -> None:
        self._client.close()

    def _read(self, stream: str, sequence: int, count: int) -> list[Block]:
        """What is there from a number on; nothing if the stream or the rest of it is gone."""
        options = ReadMessagesOptions(sequence, 1, min(count, BLOCK_MESSAGES_MAX))

        def read() -> list[Block]:
            with self._translated(stream):
                return self._client.read_blocks(stream, options)

        try:
            return patiently(read, RESTART_S)
        except (NotEnoughMessagesException, ResourceNotFoundException):
            return []

    @contextmanager
    def _translated(self, stream: str = "") -> Iterator[None]:
        """Errors in the words of whoever wrote the options."""
        where = f"server {self.name}"
        try:
            yield
        except (NotEnoughMessagesException, ResourceNotFoundException):
            raise
        except (ServerUnreachableException, ConnectionLostException, RequestTimeoutException) as e:
            raise Unreachable(
                f"{where} cannot be reached: {e}; start it or correct option servers, or set "
                f"failOnUnreachable to false to go on with the others"
            ) from e
        except UnauthorizedException as error:
            does = "correct" if self._address.token else "give one of its tokens with"
            raise SourceError(f"{where} refuses us: {error}; {does} option token") from error
        except MessageStoreReadErrorException as error:
            raise SourceError(f"{where}, stream {stream}: {error}") from error
        except StreamManagerException as error:
            raise SourceError(f"{where}: {error}") from error
