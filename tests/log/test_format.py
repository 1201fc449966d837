"""The bytes on disk, which other versions must still be able to read."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

from log.helpers import append
from penstock.block import ENTRY_BYTES, RESIDUE
from penstock.log.disk import Disk
from penstock.log.log import Log
from penstock.log.mark import Mark

INDEX = bytes.fromhex(
    "0500000000000000"  # end of "hello"
    "0cf1ce6f8f010000"  # 2024-05-13 02:36:24.204 UTC
    "05000000"  # its size
    "00000000"  # low half of its number
    "86a61036"  # checksum of "hello"
    "69113f23"
    "0600000000000000"  # end of "!"
    "0cf1ce6f8f010000"
    "01000000"
    "01000000"
    "60c9869a"  # checksum of "hello!"
    "097da9a6"
)
TIME_MS = 0x018F6FCEF10C


def write_log(folder: Path) -> None:
    log = Log(Disk(), str(folder), segment_bytes_max=1024)
    append(log, [b"hello", b"!"], TIME_MS)
    log.close()


def test_a_segment_is_payloads_and_an_index_beside_them(tmp_path: Path) -> None:
    write_log(tmp_path)
    assert (tmp_path / "00000000000000000000.data").read_bytes() == b"hello!"
    assert (tmp_path / "00000000000000000000.index").read_bytes().hex(" ", 4) == INDEX.hex(" ", 4)
    assert crc32(b"hello!") == int.from_bytes(INDEX[-8:-4], "little")


def test_the_mark_is_two_numbers_and_a_checksum(tmp_path: Path) -> None:
    write_log(tmp_path)
    content = (tmp_path / "mark").read_bytes()
    assert content == b"penmark1" + bytes.fromhex("0200000000000000 0200000000000000 bb51effd")


def test_a_folder_written_by_format_1_is_read(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.data").write_bytes(b"hello!")
    (tmp_path / "00000000000000000000.index").write_bytes(INDEX)
    Mark(Disk(), f"{tmp_path}/mark").settle(2)
    log = Log(Disk(), str(tmp_path), segment_bytes_max=1024)
    assert log.notices == []
    (block,) = log.read(0, 2, 10, 100)
    assert [(m.sequence_number, m.ingest_time, m.payload) for m in block.messages("s")] == [
        (0, TIME_MS, b"hello"),
        (1, TIME_MS, b"!"),
    ]
    log.close()


def test_one_call_checks_any_run_of_entries() -> None:
    assert crc32(INDEX, RESIDUE) == RESIDUE
    assert crc32(INDEX[ENTRY_BYTES:], RESIDUE) == RESIDUE
    assert crc32(bytes(ENTRY_BYTES), RESIDUE) != RESIDUE, "zeros are no entry"
