"""Refused messages, kept until a person decides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.exporting.dead_letters import DeadLetters


@pytest.fixture
def letters(tmp_path: Path) -> Iterator[DeadLetters]:
    found = DeadLetters(str(tmp_path / "letters.sqlite"))
    yield found
    found.close()


def add(letters: DeadLetters, *sequences: int, stream: str = "s", export: str = "e") -> None:
    letters.add(stream, export, 1000, [(n, 500, f"bad {n}", b"payload %d" % n) for n in sequences])


def test_a_letter_says_everything_about_its_message(letters: DeadLetters) -> None:
    add(letters, 7)
    (letter,) = letters.find()
    assert letter.as_dict() == {
        "id": 1,
        "streamName": "s",
        "exportIdentifier": "e",
        "sequenceNumber": 7,
        "ingestTime": 500,
        "refusedTime": 1000,
        "reason": "bad 7",
        "replay": False,
        "payload": b"payload 7",
    }


def test_letters_survive_the_process(tmp_path: Path) -> None:
    path = str(tmp_path / "letters.sqlite")
    first = DeadLetters(path)
    add(first, 1, 2)
    # No close: another connection sees what was committed, as after a crash.
    second = DeadLetters(path)
    assert [letter.sequence_number for letter in second.find()] == [1, 2]
    first.close()
    second.close()


def test_letters_are_found_by_stream_export_and_id_page_by_page(letters: DeadLetters) -> None:
    add(letters, 1, 2, 3)
    add(letters, 1, export="other")
    add(letters, 1, stream="t")
    assert len(letters.find()) == 5
    assert [letter.sequence_number for letter in letters.find("s", "e")] == [1, 2, 3]
    assert [letter.id for letter in letters.find(ids=[2, 5])] == [2, 5]
    assert [letter.id for letter in letters.find(after_id=2, count_max=2)] == [3, 4]
    assert letters.counts() == {("s", "e"): 3, ("s", "other"): 1, ("t", "e"): 1}


def test_the_same_message_refused_again_is_one_letter(letters: DeadLetters) -> None:
    add(letters, 4)
    add(letters, 4)
    assert letters.counts() == {("s", "e"): 1}


def test_a_replay_is_asked_for_taken_and_ends_in_a_purge_or_a_new_reason(
    letters: DeadLetters,
) -> None:
    add(letters, 9, 3, 5)
    assert letters.to_replay("s", "e", 10) == []
    assert letters.ask_for_replay("s", None) == {("s", "e")}
    wanted = letters.to_replay("s", "e", 10)
    assert [letter.sequence_number for letter in wanted] == [3, 5, 9]
    letters.purge(ids=[wanted[0].id])
    letters.refuse_again(2000, {wanted[1].id: "still bad"})
    assert [letter.sequence_number for letter in letters.to_replay("s", "e", 10)] == [9]
    (refused,) = letters.find(ids=[wanted[1].id])
    assert (refused.reason, refused.refused_time, refused.replay) == ("still bad", 2000, False)


def test_old_letters_and_too_many_bytes_go_the_oldest_first(letters: DeadLetters) -> None:
    add(letters, *range(10))
    assert letters.enforce_limits(1000, bytes_max=3 * len(b"payload 1")) == 7
    assert [letter.sequence_number for letter in letters.find()] == [7, 8, 9]
    assert letters.enforce_limits(1000 + 500, age_ms_max=499) == 3
    assert letters.find() == []


def test_a_file_that_is_no_database_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "letters.sqlite"
    path.write_bytes(b"this is not a database" * 100)
    with pytest.raises(StoreError, match=r"letters\.sqlite"):
        DeadLetters(str(path))


def test_one_answer_ends_at_a_size_but_has_at_least_one_letter() -> None:
    letters = DeadLetters(":memory:")
    letters.add("s", "e", 1, [(number, 0, "x", bytes(1000)) for number in range(5)])
    assert len(letters.find(bytes_max=10)) == 1
    assert len(letters.find(bytes_max=2500)) == 2
    after = letters.find(bytes_max=2500)[-1].id
    assert [letter.sequence_number for letter in letters.find(after_id=after)] == [2, 3, 4]


def test_letters_are_counted_like_they_are_found() -> None:
    letters = DeadLetters(":memory:")
    letters.add("s", "e", 1, [(number, 0, "x", b"p") for number in range(3)])
    letters.add("s", "f", 1, [(0, 0, "x", b"p")])
    assert (letters.count(), letters.count("s", "e"), letters.count(ids=[1, 4])) == (4, 3, 2)
    assert letters.count("other") == 0


def test_numbers_can_begin_above_those_of_another_store() -> None:
    letters = DeadLetters(":memory:", id_floor=1000)
    letters.add("s", "e", 1, [(0, 0, "x", b"p")])
    assert [letter.id for letter in letters.find()] == [1001]
