"""One bit flipped, at every position of every file of a small store."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from faults.stores import NAME, KnownStore, check_stream, make_store, reopened
from penstock import MessageStoreReadErrorException, ReadMessagesOptions, StreamManagerClient
from penstock.streams.verify import verify_store
from server_process import ServerProcess

MESSAGES = 23  # few, in two segments: every one of their bits is flipped


def files_of(store: KnownStore) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir())


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(content)


@pytest.fixture(scope="module")
def original(quick_folder: Path) -> KnownStore:
    return make_store(quick_folder / "original", MESSAGES)


def test_the_store_has_every_kind_of_file(original: KnownStore) -> None:
    assert files_of(original) == [
        "00000000000000000000.data",
        "00000000000000000000.index",
        "00000000000000000022.data",
        "00000000000000000022.index",
        "exports",
        "mark",
        "stream.json",
        "stream.json.copy",
    ]
    assert not verify_store(str(original.root)).damaged


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.data",
        "00000000000000000000.index",
        "00000000000000000022.data",
        "00000000000000000022.index",
        "exports",
        "mark",
        "stream.json",
        "stream.json.copy",
    ],
)
def test_a_flipped_bit_is_found_and_never_invents_a_message(
    original: KnownStore, quick_folder: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = original.copied_to(quick_folder / "store")
    pristine = {path.name: path.read_bytes() for path in store.folder.iterdir()}
    caplog.set_level(logging.WARNING)
    for bit in range(len(pristine[name]) * 8):
        flip(store.folder / name, bit)
        report = verify_store(str(store.root))
        assert report.damaged, f"verify does not see bit {bit} of {name}"
        caplog.clear()
        opened = False
        for stream in reopened(store):
            opened = True
            notices = [record.getMessage() for record in caplog.records]
            check_stream(stream, store.acknowledged, notices=notices)
            assert stream.exports.progress["e"].last_exported_sequence in (3, -1)
        assert opened, f"bit {bit} of {name} keeps the stream from being opened"
        restore(store.folder, pristine)


def restore(folder: Path, pristine: dict[str, bytes]) -> None:
    for path in folder.iterdir():
        if path.name not in pristine:
            path.unlink()
    for name, content in pristine.items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("name", ["00000000000000000000.data", "00000000000000000000.index"])
@pytest.mark.parametrize("part", [0.0, 0.4, 0.9])
def test_a_client_is_told_which_messages_are_damaged_and_reads_the_others(
    original: KnownStore, tmp_path: Path, name: str, part: float
) -> None:
    process = ServerProcess(tmp_path)
    store = original.copied_to(process.data_dir)
    path = store.folder / name
    flip(path, int(path.stat().st_size * 8 * part))
    with process, StreamManagerClient(port=process.port) as client:
        complaints = []
        for number, payload in store.acknowledged.items():
            options = ReadMessagesOptions(desired_start_sequence_number=number)
            try:
                (message,) = client.read_messages(NAME, options)
            except MessageStoreReadErrorException as error:
                complaints.append(str(error))
            else:
                assert (message.sequence_number, message.payload) == (number, payload)
        assert 1 <= len(complaints) <= 2
        assert all("read on from" in complaint for complaint in complaints)
        assert client.append_message(NAME, b"and on it goes") > max(store.acknowledged)
