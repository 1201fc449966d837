"""The table of destinations."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest
from surroundings import Surroundings

from penstock.destinations import DESTINATIONS, destination_for
from penstock.destinations.base import Blocked
from penstock.destinations.http import HTTPDestination
from penstock.destinations.iot_analytics import IoTAnalyticsDestination
from penstock.destinations.kinesis import KinesisDestination
from penstock.model import (
    ExportConfig,
    ExportFormat,
    HTTPConfig,
    IoTAnalyticsConfig,
    KinesisConfig,
)


def test_every_type_of_export_has_a_destination() -> None:
    assert set(DESTINATIONS) == {kind.__name__ for kind in get_args(ExportConfig)}


@pytest.mark.parametrize("place", DESTINATIONS.values())
def test_every_destination_keeps_the_contract(place: str) -> None:
    module_name, _, class_name = place.partition(":")
    kind = getattr(__import__(module_name, fromlist=[class_name]), class_name)

    assert kind.limits.messages_max >= 1
    for method in ("send", "check", "close"):
        assert callable(getattr(kind, method))


def test_a_configuration_finds_its_destination(surroundings: Surroundings) -> None:
    config = HTTPConfig("web", "http://127.0.0.1:1/", export_format=ExportFormat.JSON_BATCHED)

    found = destination_for(config, surroundings.context())

    assert isinstance(found, HTTPDestination)


def test_a_channel_goes_where_the_operator_redirects_it(surroundings: Surroundings) -> None:
    surroundings.settings["kinesis_streams_by_channel"] = {"turbines": "plant-7"}
    context = surroundings.context()

    assert isinstance(
        destination_for(IoTAnalyticsConfig("i", "turbines"), context), KinesisDestination
    )
    assert isinstance(
        destination_for(IoTAnalyticsConfig("i", "boilers"), context), IoTAnalyticsDestination
    )


def test_a_missing_library_blocks_the_export_and_says_what_to_install(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("penstock.destinations.")]:
        if name.endswith((".aws", ".kinesis")):
            monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)

    with pytest.raises(Blocked, match=r"to-cloud needs the library botocore.*penstock\[aws\]"):
        destination_for(KinesisConfig("k", "stream"), surroundings.context())


def test_http_exports_need_no_library_of_aws() -> None:
    program = (
        "import sys\n"
        "import penstock.destinations.http, penstock.destinations.batching\n"
        "import penstock.destinations.retry\n"
        "assert not {'botocore', 'urllib3', 'asyncio', 'pyspark'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
