"""There is one way to give Spark its own settings, from the file to the running pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from exports_rig import running_rig, wait_until

from failure_logs import show_on_failure
from penstock.cli import run
from penstock.errors import SettingsError
from penstock.model import HTTPConfig
from penstock.pipeline.context import driver_host
from penstock.settings import Settings

EXPECTED = ("spark.executor.memory=2g", "spark.executor.cores=2", "spark.ui.reverseProxy=true")


@pytest.mark.parametrize(
    "text",
    [
        '[spark_conf]\nspark.executor.memory = "2g"\nspark.executor.cores = 2\n'
        "spark.ui.reverseProxy = true\n",
        '[spark_conf]\n"spark.executor.memory" = "2g"\n"spark.executor.cores" = "2"\n'
        '"spark.ui.reverseProxy" = "true"\n',
        'spark_conf = ["spark.executor.memory=2g", "spark.executor.cores=2", '
        '"spark.ui.reverseProxy=true"]\n',
    ],
    ids=["bare keys", "quoted keys", "list"],
)
def test_a_file_names_them_as_one_likes(tmp_path: Path, text: str) -> None:
    (tmp_path / "penstock.toml").write_text(text)
    loaded = Settings.load({}, {}, str(tmp_path / "penstock.toml"))
    assert loaded.settings.spark_conf == EXPECTED


def test_what_is_no_setting_of_spark_is_refused() -> None:
    with pytest.raises(SettingsError, match="Give KEY=VALUE with a key that begins with spark"):
        Settings.load({"spark_conf": "executor.memory=2g"}, {})


def test_a_pipeline_started_by_hand_refuses_what_is_no_setting_of_spark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_PIPELINE_TOKEN", "token")
    assert run(["pipeline", "--server", "127.0.0.1:1", "--conf", "memory=2g"]) == 2
    assert "--conf memory=2g is not KEY=VALUE with a key of Spark" in capsys.readouterr().err


def test_the_server_hands_them_to_its_own_pipeline(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    show_on_failure(request, tmp_path / "server.log")
    with running_rig(tmp_path, {"PENSTOCK_SPARK_CONF": "spark.eventLog.enabled=true"}) as rig:
        rig.create("stream", http=[HTTPConfig("export", rig.cloud.sink("never").url)])
        wait_until(lambda: rig.pipeline().state == "unavailable", "the refusal", 60, rig.pipeline)
        assert rig.pipeline().text == (
            "spark.eventLog.enabled cannot be set: the event log would hold the pipeline's token"
        )


@pytest.mark.parametrize(("master", "host"), [("local[2]", "127.0.0.1"), ("local", "127.0.0.1")])
def test_nobody_else_reaches_a_driver_that_needs_no_cluster(master: str, host: str) -> None:
    assert driver_host(master) == host
