"""Cutting input into messages and messages into batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import input as cli_input
from penstock.cli.input import batches_of, lines_of, opened_input
from penstock.cli.output import CommandFailed

chunks = st.lists(st.binary(min_size=1, max_size=6) | st.sampled_from([b"\n", b"\r\n", b"a\n"]))


@given(chunks)
def test_lines_do_not_depend_on_how_the_input_was_cut(pieces):
    content = b"".join(pieces)
    expected = content.split(b"\n")
    if not expected[-1]:
        expected.pop()
    expected = [line.removesuffix(b"\r") for line in expected]
    assert [line for lines in lines_of(pieces) for line in lines] == expected


@given(chunks)
def test_a_whole_input_is_one_message(pieces):
    assert list(batches_of(pieces, whole=True)) == [[b"".join(pieces)]]


def test_a_line_is_there_as_soon_as_its_end_is():
    taken = []

    def source():
        for chunk in (b"one\ntw", b"o\nthree"):
            taken.append(chunk)
            yield chunk

    lines = lines_of(source())
    assert next(lines) == [b"one"]
    assert taken == [b"one\ntw"]
    assert list(lines) == [[b"two"], [b"three"]]


def test_batches_have_a_limit(monkeypatch):
    monkeypatch.setattr(cli_input, "BATCH_MESSAGES_MAX", 3)
    batches = list(batches_of([b"1\n2\n3\n4\n5\n6\n7\n"], whole=False))
    assert batches == [[b"1", b"2", b"3"], [b"4", b"5", b"6"], [b"7"]]


@pytest.mark.parametrize("whole", [True, False])
def test_a_message_that_no_frame_can_hold_is_refused_while_it_is_read(monkeypatch, whole):
    monkeypatch.setattr(cli_input, "MESSAGE_BYTES_MAX", 10)
    assert list(batches_of([b"0123456789"], whole=whole)) == [[b"0123456789"]]

    def endless():
        while True:
            yield b"0123"

    with pytest.raises(CommandFailed, match="longer than 10 B, the limit of the protocol"):
        list(batches_of(endless(), whole=whole))


def test_a_file_knows_its_size_and_a_device_does_not(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    with opened_input(str(tmp_path / "file")) as source:
        assert (source.size_bytes, list(source.chunks())) == (5, [b"12345"])
    with opened_input("/dev/null") as source:
        assert (source.size_bytes, list(source.chunks())) == (None, [])
