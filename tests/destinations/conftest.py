"""What tests of destinations share: a context, and an environment that leads nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from s3_export import BUCKET, STATUS_STREAM, THREE_PARTS
from s3_front import S3Front
from scripted_service import ScriptedService
from surroundings import Surroundings

from penstock.destinations.base import Timeouts
from penstock.destinations.s3 import S3Destination
from penstock.model import S3ExportTaskExecutorConfig, StatusConfig, StatusLevel
from penstock.testing import LocalCloud


@pytest.fixture
def surroundings() -> Surroundings:
    return Surroundings()


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with ScriptedService() as running:
        yield running


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials and a region from the environment, and nothing from this machine."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def cloud(aws: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCloud]:
    """An empty cloud that the environment leads to."""
    with LocalCloud(region="eu-west-1") as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        yield running


@pytest.fixture
def s3_client(cloud: LocalCloud) -> Iterator[Any]:
    """A client to look into the cloud with."""
    cloud.s3.create_bucket(BUCKET)
    client = cloud.client("s3")
    yield client
    client.close()


@pytest.fixture
def front(
    s3_client: Any, cloud: LocalCloud, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> S3Front:
    """Everything goes to the cloud, unless `fault` says otherwise."""
    door = S3Front(cloud.endpoint)
    service.answer = door.answer
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", service.url)
    return door


@pytest.fixture
def make_export(surroundings: Surroundings) -> Iterator[Callable[..., S3Destination]]:
    """Makes destinations that report to the status stream, and closes them."""
    made: list[S3Destination] = []

    def make(
        level: StatusLevel = StatusLevel.INFO, read_s: float = 20.0, **fields: Any
    ) -> S3Destination:
        config = S3ExportTaskExecutorConfig(
            "s3", **{"status_config": StatusConfig(level, STATUS_STREAM), **fields}
        )
        made.append(S3Destination(config, surroundings.context(), timeouts=Timeouts(5.0, read_s)))
        return made[-1]

    yield make
    for destination in made:
        destination.close()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small file.bin"
    path.write_bytes(os.urandom(1000))
    return path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large.bin"
    path.write_bytes(os.urandom(THREE_PARTS))
    return path
