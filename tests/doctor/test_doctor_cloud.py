"""Checks of credentials and destinations, against the local cloud."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.doctor.cloud import (
    Target,
    check_credentials,
    check_targets,
    clock_urls,
    needs_aws,
    targets_of,
)
from penstock.doctor.examination import Patient, examine, patient_at_rest
from penstock.doctor.finding import Finding, Level
from penstock.model import (
    ExportConfig,
    ExportDefinition,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    MessageStreamDefinition,
    S3ExportTaskExecutorConfig,
    StrategyOnFull,
)
from penstock.settings import SETTINGS, Settings
from penstock.testing import LocalCloud

NOWHERE = "http://127.0.0.1:9"  # the port of a service that nobody has run for decades


@pytest.fixture(scope="module")
def shared_cloud() -> Iterator[LocalCloud]:
    with LocalCloud() as cloud:
        cloud.kinesis.create_stream("telemetry")
        yield cloud


@pytest.fixture
def cloud(shared_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> LocalCloud:
    """The local cloud is what the variables of this process lead to."""
    for name, value in shared_cloud.environment().items():
        monkeypatch.setenv(name, value)
    return shared_cloud


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
    ):
        monkeypatch.delenv(name, raising=False)


def settings_of(**fields: Any) -> tuple[dict[str, Any], dict[str, str]]:
    settings = Settings(**fields)
    known = {key: getattr(settings, key) for key in SETTINGS}
    known["kinesis_streams_by_channel"] = settings.kinesis_streams_by_channel()
    return known, settings.tables_by_channel()


def definition(name: str, **exports: list[Any]) -> MessageStreamDefinition:
    return MessageStreamDefinition(
        name,
        strategy_on_full=StrategyOnFull.RejectNewData,
        export_definition=ExportDefinition(**exports),
    )


def checked(*configs: ExportConfig, **fields: Any) -> list[Finding]:
    known, tables = settings_of(**fields)
    return check_targets([Target(config, ("e of s",)) for config in configs], known, tables)


# --- credentials --------------------------------------------------------------------------------


def test_credentials_are_told_by_their_kind_and_never_by_their_content(cloud: LocalCloud):
    finding = check_credentials(matters=True)
    assert finding.level == Level.OK
    assert finding.text == "found by this user: variables of the environment; region us-east-1."
    secrets = [value for name, value in cloud.environment().items() if "KEY" in name]
    assert secrets
    assert not any(secret in finding.text for secret in secrets)


@pytest.mark.parametrize(("matters", "level"), [(True, Level.PROBLEM), (False, Level.NOTE)])
@pytest.mark.usefixtures("no_credentials")
def test_missing_credentials_are_a_problem_if_an_export_needs_them(matters: bool, level: Level):
    finding = check_credentials(matters=matters)
    assert finding.level == level
    assert "no AWS credentials were found" in finding.text
    assert "AWS_ACCESS_KEY_ID" in finding.remedy


@pytest.mark.usefixtures("no_credentials")
def test_a_missing_region_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    finding = check_credentials(matters=True)
    assert finding.level == Level.PROBLEM
    assert "AWS_DEFAULT_REGION" in finding.remedy


def test_without_the_aws_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith("penstock.destinations.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    finding = check_credentials(matters=True)
    assert finding.level == Level.PROBLEM
    assert "penstock[aws]" in finding.remedy
    assert check_credentials(matters=False).level == Level.NOTE
    (kinesis,) = checked(KinesisConfig("e", "telemetry"))
    assert kinesis.level == Level.PROBLEM
    assert "penstock[aws]" in kinesis.text


# --- destinations -------------------------------------------------------------------------------


def test_destinations_that_answer_are_fine(cloud: LocalCloud):
    findings = checked(
        KinesisConfig("e", "telemetry"),
        IoTSiteWiseConfig("e"),
        S3ExportTaskExecutorConfig("e"),
        HTTPConfig("e", f"http://user:secret@{cloud.endpoint.partition('//')[2]}/sink/a"),
    )
    assert [finding.level for finding in findings] == [Level.OK] * 4
    assert findings[0].text == "Kinesis stream telemetry (export e of s)."
    assert "secret" not in findings[3].text


def test_a_missing_target_is_named(cloud: LocalCloud):
    (finding,) = checked(KinesisConfig("e", "nobody"))
    assert finding.level == Level.PROBLEM
    assert "nobody" in finding.text
    assert finding.remedy


def test_denied_access_and_an_unreachable_address_are_told(
    cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
):
    with cloud.sitewise.deny():
        (denied,) = checked(IoTSiteWiseConfig("e"))
    assert denied.level == Level.PROBLEM
    assert "allow iotsitewise:" in denied.text
    monkeypatch.setenv("AWS_ENDPOINT_URL", NOWHERE)
    findings = checked(
        KinesisConfig("e", "telemetry"), S3ExportTaskExecutorConfig("e"), HTTPConfig("e", NOWHERE)
    )
    assert [finding.level for finding in findings] == [Level.PROBLEM] * 3
    assert all("firewall" in finding.remedy for finding in findings)


def test_a_wrong_uri_is_told_not_raised():
    (finding,) = checked(HTTPConfig("e", "ftp://x"))
    assert finding.level == Level.PROBLEM
    assert "must be like http://" in finding.text


def test_a_channel_goes_where_the_settings_send_it(cloud: LocalCloud, tmp_path: Any):
    redirects = ("old=kinesis:telemetry", f"cold=parquet:{tmp_path}/table")
    known, tables = settings_of(iot_analytics_redirects=redirects)
    exports = [IoTAnalyticsConfig("a", "old"), IoTAnalyticsConfig("b", "cold")]
    stream, table = targets_of([definition("s", iot_analytics=exports)], known)
    assert (needs_aws(stream, tables), needs_aws(table, tables)) == (True, False)
    findings = check_targets([stream, table], known, tables)
    assert findings[0].text.startswith("Kinesis stream telemetry ")
    assert [finding.check for finding in findings[1:]] == ["disk"] * 3


def test_a_target_of_many_exports_is_asked_once():
    known, _ = settings_of()
    definitions = [definition(f"s{n}", kinesis=[KinesisConfig("e", "k")]) for n in range(3)]
    (target,) = targets_of(definitions, known)
    assert target.used_by == "export e of s0 and 2 more"


def test_the_clocks_of_services_and_receivers_are_asked(cloud: LocalCloud):
    known, tables = settings_of()
    exports = {
        "kinesis": [KinesisConfig("k", "telemetry")],
        "http": [HTTPConfig("h", "http://10.1.2.3/x")],
    }
    targets = targets_of([definition("s", **exports)], known)
    assert list(clock_urls(targets, tables)) == [cloud.endpoint, "http://10.1.2.3/x"]


# --- all together -------------------------------------------------------------------------------


def test_java_matters_only_where_this_machine_exports(tmp_path: Any):
    exports = [definition("s", http=[HTTPConfig("h", NOWHERE)])]
    assert Patient(Settings(), False, exports).pipeline_is_here
    assert not Patient(Settings(pipeline="external"), False, exports).pipeline_is_here
    assert not Patient(Settings(), False, [definition("s")]).pipeline_is_here


@pytest.mark.usefixtures("no_credentials")
def test_a_new_machine_has_every_check_and_no_problem(tmp_path: Any):
    settings = Settings(data_dir=str(tmp_path / "data"), port=0, console_port=0)
    findings = list(examine(patient_at_rest(settings)))
    assert [finding for finding in findings if finding.level is Level.PROBLEM] == []
    assert {finding.check for finding in findings} == {
        *("server", "java", "spark", "port", "console", "disk"),
        *("credentials", "destination", "clock"),
    }
    assert not (tmp_path / "data").exists()
