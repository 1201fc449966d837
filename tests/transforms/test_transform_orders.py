"""What the server orders, keeps and shows of transforms, told by a pipeline that is this test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from transforms_rig import wait_until

from penstock.client.sync import StreamManagerClient
from penstock.client.worker import WorkerClient
from penstock.errors import (
    InvalidRequestException,
    ResourceNotFoundException,
    UnknownOperationException,
)
from penstock.model import MessageStreamDefinition, StrategyOnFull
from penstock.transforms.reports import Malformed, Order, TransformReport, TransformView
from server_process import ServerProcess

TOKEN = "the-pipeline"
CONFIG = """
[transforms.averages]
source = "In"
schema = "rpm DOUBLE"
sql = "SELECT rpm FROM source"
start = "latest"
target = { stream = "Out" }

[transforms.resting]
source = "In"
format = "raw"
sql = "SELECT payload FROM source"
enabled = false
target = { stream = "Other" }
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    config = tmp_path / "penstock.toml"
    config.write_text(CONFIG)
    env = {"PENSTOCK_PIPELINE": "external", "PENSTOCK_PIPELINE_TOKEN": TOKEN}
    with ServerProcess(tmp_path, "--config", str(config), env=env) as running:
        yield running


@pytest.fixture
def pipeline(server: ServerProcess) -> Iterator[WorkerClient]:
    with WorkerClient(port=server.port, auth_token=TOKEN) as client:
        client.create_message_stream(
            MessageStreamDefinition("In", strategy_on_full=StrategyOnFull.OverwriteOldestData)
        )
        client.append_messages("In", [b"zero", b"one", b"two"])
        yield client


def report(state: str = "running", **values: object) -> TransformReport:
    return TransformReport("averages", **{"generation": 1, "state": state, **values})  # type: ignore[arg-type]


def only_order(pipeline: WorkerClient, *reports: TransformReport) -> Order:
    (order,) = pipeline.report_transforms(list(reports)).orders
    return order


def view(client: StreamManagerClient, name: str = "averages") -> TransformView:
    (found,) = [each for each in client.describe_transforms() if each.name == name]
    return found


def test_the_pipeline_is_told_what_to_run_and_where(
    server: ServerProcess, pipeline: WorkerClient
) -> None:
    orders, folder = pipeline.report_transforms([])

    assert folder == str(server.data_dir / "transforms")
    assert [order.transform.name for order in orders] == ["averages"]
    assert (orders[0].generation, orders[0].start, orders[0].has_run) == (1, "latest", False)


def test_who_has_not_the_pipelines_token_cannot_report(server: ServerProcess) -> None:
    with (
        WorkerClient(port=server.port) as client,
        pytest.raises(UnknownOperationException),
    ):
        client.report_transforms([])


def test_everybody_sees_what_was_reported(pipeline: WorkerClient) -> None:
    only_order(pipeline, report(next_sequence_number=1, rows_in=7, batch_millis=40))

    shown = view(pipeline)

    assert (shown.state, shown.lag_messages, shown.rows_in) == ("running", 2, 7)
    assert (shown.source, shown.target, shown.batch_millis) == ("In", "stream Out", 40)
    assert view(pipeline, "resting").state == "paused"


def test_what_a_lost_pipeline_said_is_not_shown_any_more(
    server: ServerProcess, pipeline: WorkerClient
) -> None:
    with WorkerClient(port=server.port, auth_token=TOKEN) as other:
        only_order(other, report())
        assert view(pipeline).state == "running"

    wait_until(
        lambda: view(pipeline).state == "waiting",
        "the server to hear of the end of the connection",
        5.0,
        lambda: view(pipeline),
    )


def test_a_restart_of_the_server_keeps_what_must_be_known(
    server: ServerProcess, pipeline: WorkerClient
) -> None:
    only_order(pipeline, report(has_run=True, fingerprint="stream In", checked_sequence_number=2))
    server.stop()
    server.restart()

    order = only_order(pipeline)

    assert (order.has_run, order.fingerprint, order.checked_sequence_number) == (
        True,
        "stream In",
        2,
    )


def test_malformed_messages_are_dead_letters_once_and_survive_a_kill(
    server: ServerProcess, pipeline: WorkerClient
) -> None:
    malformed = [Malformed(1, "not JSON")]
    for _ in range(2):
        only_order(pipeline, report(malformed=malformed, checked_sequence_number=3))
    server.kill()
    server.restart()

    (letter,) = pipeline.find_dead_letters("In", "transform averages")

    assert (letter.sequence_number, letter.reason, letter.payload) == (1, "not JSON", b"one")
    assert only_order(pipeline).checked_sequence_number == 3
    assert view(pipeline).dead_letters == 1


def test_letters_of_a_transform_cannot_be_sent_again(pipeline: WorkerClient) -> None:
    only_order(pipeline, report(malformed=[Malformed(0, "why not")]))
    (letter,) = pipeline.find_dead_letters()

    for selection in ({"ids": [letter.id]}, {"export_identifier": "transform averages"}, {}):
        with pytest.raises(InvalidRequestException, match="Append the corrected messages"):
            pipeline.replay_dead_letters(**selection)  # type: ignore[arg-type]
    assert pipeline.purge_dead_letters(export_identifier="transform averages") == 1


def test_a_reset_begins_a_new_generation_and_forgets_the_old_one(
    server: ServerProcess, pipeline: WorkerClient
) -> None:
    only_order(pipeline, report(has_run=True, fingerprint="old", checked_sequence_number=2))

    assert pipeline.reset_transform("averages", "1") == 2
    order = only_order(pipeline, report("running", has_run=True, checked_sequence_number=3))

    assert (order.generation, order.start, order.has_run) == (2, "1", False)
    assert (order.fingerprint, order.checked_sequence_number) == ("", None)
    assert view(pipeline).state == "waiting", "the report was about the old generation"
    server.kill()
    server.restart()
    assert only_order(pipeline) == order


def test_a_reset_of_what_is_not_there_or_to_nowhere_is_refused(pipeline: WorkerClient) -> None:
    with pytest.raises(ResourceNotFoundException, match="declared are: averages, resting"):
        pipeline.reset_transform("avarages")
    with pytest.raises(InvalidRequestException, match="neither earliest, latest nor a sequence"):
        pipeline.reset_transform("averages", "noon")


def test_records_that_are_not_ours_stop_the_server(
    server: ServerProcess, pipeline: WorkerClient
) -> None:
    pipeline.reset_transform("averages")
    server.stop()
    for name in ("transforms.json", "transforms.json.copy"):
        (server.data_dir / name).write_text("{}")

    with pytest.raises(AssertionError, match="checksum does not match"):
        server.start()
