"""Who owns a data directory, and what the last owner left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from log.helpers import every_bit, tree
from log.test_disk import file_size_limit
from penstock.errors import StoreError, StoreInUse
from penstock.streams import store
from penstock.streams.manager import StreamManager
from penstock.streams.store import LOCK_NAME, boot_id, locked, note_opened, owned, read_owner


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"{tmp_path}/store"


def lock_content(root: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(Path(root, LOCK_NAME).read_text())
    return found


def use(root: str, process_id: int = 1) -> bool:
    """One life of a server; whether it was told of a power cut."""
    with owned(root, process_id) as power_lost:
        StreamManager(root, power_lost=power_lost).close()
    return power_lost


# --- owning ------------------------------------------------------------------------------------


def test_owning_makes_the_folder_and_names_the_owner(root: str) -> None:
    with owned(root, 4321):
        assert lock_content(root)["process"] == 4321
        assert os.stat(root).st_mode & 0o777 == 0o700


def test_a_second_owner_is_refused_and_told_who_the_first_is(root: str) -> None:
    with owned(root, 4321):
        with pytest.raises(StoreInUse) as caught, owned(root, 9):
            pass
        assert str(caught.value) == (
            f"the data directory {root} is in use by process 4321; stop that server or choose "
            f"another directory"
        )
        assert lock_content(root)["process"] == 4321
    with owned(root, 9):
        assert lock_content(root)["process"] == 9


def test_an_owner_in_another_process_counts_until_it_dies(root: str) -> None:
    program = (
        "import sys; from penstock.streams.store import owned\n"
        "with owned(sys.argv[1], 77): print('mine', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(StoreInUse, match="process 77"), owned(root, 1):
            pass
        other.kill()
        other.wait()
        with owned(root, 1):
            pass


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=f"{tmp_path}/file/store cannot be made"):
        use(f"{tmp_path}/file/store")


def test_a_lock_that_is_no_file_is_an_error(root: str) -> None:
    os.makedirs(f"{root}/{LOCK_NAME}")
    with pytest.raises(StoreError, match=f"the data directory {root} cannot be used: Is a dir"):
        use(root)


def test_a_lock_that_cannot_be_written_is_an_error(root: str) -> None:
    os.makedirs(root)
    with (
        file_size_limit(10),
        pytest.raises(StoreError, match="cannot be used: File too large"),
        owned(root, 1),
    ):
        pass


# --- looking -----------------------------------------------------------------------------------


def test_looking_changes_nothing_and_lets_others_look(root: str) -> None:
    use(root)
    before = tree(Path(root))
    with locked(root, write=False), locked(root, write=False):
        with pytest.raises(StoreInUse), owned(root, 1):
            pass
        assert tree(Path(root)) == before


def test_nobody_looks_while_somebody_owns(root: str) -> None:
    with owned(root, 1), pytest.raises(StoreInUse), locked(root, write=False):
        pass


def test_a_store_without_a_lock_file_has_no_owner(root: str) -> None:
    os.makedirs(root)
    with locked(root, write=False):
        pass
    assert os.listdir(root) == []


# --- power cuts --------------------------------------------------------------------------------


def test_a_restart_of_the_server_is_no_power_cut(root: str) -> None:
    use(root)
    assert not use(root)
    assert not use(root)


def test_another_boot_of_the_machine_is(root: str) -> None:
    use(root)
    Path(root, LOCK_NAME).write_text(json.dumps({"process": 1, "boot": "another"}))
    assert use(root)
    assert not use(root)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"{", b"\0" * 60, b'{"boot": ""}'])
def test_a_lock_file_that_says_nothing_may_have_been_left_by_one(root: str, content: bytes) -> None:
    use(root)
    Path(root, LOCK_NAME).write_bytes(content)
    assert use(root)
    assert not use(root)


def test_a_flipped_bit_in_the_lock_file_does_no_harm(root: str) -> None:
    use(root)
    lock = Path(root, LOCK_NAME)
    for content in every_bit(lock.read_bytes()):
        lock.write_bytes(content)
        with owned(root, 1):
            pass
        # In the worst case numbers are skipped that did not have to be.
        use(root)
        assert not use(root)


def test_a_server_killed_while_it_opens_the_streams_leaves_the_power_cut_to_the_next(
    root: str,
) -> None:
    use(root)
    Path(root, LOCK_NAME).write_text(json.dumps({"process": 1, "boot": "another"}))
    for _ in range(2):
        with owned(root, 2) as power_lost:
            assert power_lost
    assert lock_content(root) == {"process": 2, "boot": "another"}
    assert use(root)
    assert lock_content(root)["boot"] == boot_id()


def test_a_shorter_lock_replaces_a_longer_one(root: str) -> None:
    use(root, 123456789)
    use(root, 1)
    assert lock_content(root) == {"process": 1, "boot": boot_id()}
    note_opened(root)
    assert lock_content(root) == {"process": 1, "boot": boot_id()}


def test_where_the_system_does_not_tell_its_boot_every_start_may_follow_a_power_cut(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "boot_id", lambda: "")
    assert use(root)
    assert use(root)


def test_the_boot_is_named_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(boot_id()) == 36
    assert boot_id() == boot_id()

    def missing(disk: object, path: str) -> bytes:
        raise FileNotFoundError(path)

    monkeypatch.setattr(store.Disk, "read_file", missing)
    assert boot_id() == ""
    assert read_owner("/nowhere") == {}
