"""What an S3 task asks for, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.destinations.s3_task import (
    TaskInvalid,
    allowed_path,
    key_at,
    metadata_of,
    parsed_task,
    path_of,
)
from penstock.model import S3ExportTaskDefinition
from penstock.util import Util

AT_NS = 1_735_571_045 * 10**9 + 123_000_000  # 2024-12-30T15:04:05.123Z, a Monday


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:/tmp/a", "/tmp/a"),
        ("file:///tmp/a", "/tmp/a"),
        ("file://localhost/tmp/a", "/tmp/a"),
        ("FILE:/tmp/a", "/tmp/a"),
        ("file:/tmp/a%20b%3F%23%25", "/tmp/a b?#%"),
        ("file:/tmp/a b", "/tmp/a b"),
        ("file:///tmp/%C3%A9t%C3%A9", "/tmp/été"),
        ("file:///tmp/été", "/tmp/été"),
        ("file:/tmp/%FF", "/tmp/\udcff"),
    ],
)
def test_every_form_of_a_file_url_names_its_file(url: str, path: str) -> None:
    assert path_of(url) == path


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("/tmp/a", "must name a local file, as in file:/path/name"),
        ("http://host/a", "must name a local file"),
        ("file://host/a", "must name a local file"),
        ("file:a", "absolute path"),
        ("file:", "absolute path"),
        ("file:/a%00b", "absolute path"),
        ("file:/a?b", "%3F and %23"),
        ("file:/a#b", "%3F and %23"),
        ("file://[::1/a", "no URL"),
    ],
)
def test_what_is_no_local_file_is_invalid(url: str, words: str) -> None:
    with pytest.raises(TaskInvalid, match=words):
        path_of(url)


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A folder `in` with a file, one `out` with another, and symbolic links both ways."""
    for name in ("in", "out", "in-other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "in" / "way-out").symlink_to(tmp_path / "out" / "file")
    (tmp_path / "out" / "way-in").symlink_to(tmp_path / "in" / "file")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    return tmp_path


@pytest.mark.parametrize("folder", ["in", "link", "in/"])
@pytest.mark.parametrize("path", ["in/file", "out/way-in", "link/file", "out/../in/file"])
def test_a_file_below_an_allowed_folder_may_be_read(folders: Path, folder: str, path: str) -> None:
    allowed = ["/nowhere", f"{folders}/{folder}"]
    assert allowed_path(f"{folders}/{path}", allowed) == str(folders / "in" / "file")


@pytest.mark.parametrize("path", ["out/file", "in/way-out", "in-other/file", "in/../out/file"])
def test_a_file_elsewhere_may_not_be_read(folders: Path, path: str) -> None:
    allowed = [str(folders / "in"), "/nowhere"]
    with pytest.raises(TaskInvalid, match=f"below {folders}/in or /nowhere: .* read_only_dirs"):
        allowed_path(f"{folders}/{path}", allowed)


def test_without_allowed_folders_every_file_may_be_read(folders: Path) -> None:
    assert allowed_path(f"{folders}/in/way-out", []) == f"{folders}/in/way-out"


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ("plain/key.txt", "plain/key.txt"),
        ("logs/!{timestamp:yyyy/MM/dd}/a.log", "logs/2024/12/30/a.log"),
        ("!{timestamp:YYYY}-!{timestamp:HHmmssSSS}", "2025-150405123"),
        ("a!b", "a!b"),
    ],
)
def test_placeholders_become_the_time_of_the_upload(template: str, key: str) -> None:
    assert key_at(template, AT_NS) == key


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("!{time:yyyy}", r"!\{time:\.\.\.\} is unknown; there is !\{timestamp:\.\.\.\} only"),
        ("!{timestamp:yyyyo}", r"!\{timestamp:yyyyo\} is no pattern of Java: o is no pattern"),
        ("!{timestamp:p}", "padding letter p"),
        ("x" * 1020 + "!{timestamp:yyyyMM}", "1026 bytes; S3 takes 1024 at most"),
        ("é" * 513, "1026 bytes"),
    ],
)
def test_a_key_that_cannot_be_made_is_invalid(template: str, words: str) -> None:
    with pytest.raises(TaskInvalid, match=words):
        key_at(template, AT_NS)


def task(**fields: Any) -> S3ExportTaskDefinition:
    return S3ExportTaskDefinition("file:/a", "bucket", "key", **fields)


def test_metadata_has_lower_case_names() -> None:
    assert metadata_of(task(user_metadata={"Machine-Id": "Press 7", "x": ""})) == {
        "machine-id": "Press 7",
        "x": "",
    }
    assert metadata_of(task()) == {}


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"$aws-gg-x": "1"}, "reserved"),
        ({"$AWS-GG-x": "1"}, "reserved"),
        ({"A": "1", "a": "2"}, "twice"),
        ({"a b": "1"}, "header"),
        ({"": "1"}, "header"),
        ({"a": "x\r\nX-Evil: 1"}, "header"),
        ({"a": "é"}, "header"),
    ],
)
def test_metadata_that_s3_cannot_keep_is_invalid(metadata: dict[str, str], words: str) -> None:
    with pytest.raises(TaskInvalid, match=words):
        metadata_of(task(user_metadata=metadata))


def test_a_payload_is_a_task_as_aws_s_helper_writes_it() -> None:
    expected = task(user_metadata={"a": "b"})

    assert parsed_task(Util.validate_and_serialize_to_json_bytes(expected)) == expected


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"no JSON", "S3ExportTaskDefinition"),
        (b"[]", "S3ExportTaskDefinition"),
        (json.dumps({"inputUrl": "file:/a", "bucket": "b"}).encode(), "bucket"),
        (json.dumps({"inputUrl": "file:/a", "bucket": "bucket"}).encode(), "key: is required"),
        (json.dumps({"inputUrl": "file:/a", "bucket": "bucket", "key": "a b"}).encode(), "key"),
    ],
)
def test_a_payload_that_is_no_task_is_invalid(document: bytes, words: str) -> None:
    with pytest.raises(TaskInvalid, match=words):
        parsed_task(document)
