"""A program as users of AWS's Python SDK write it: one scenario, results as lines of JSON.

The first line of the import is the only one that differs between the SDKs and Penstock's own
client; the tests rewrite it. The server's port comes from STREAM_MANAGER_SERVER_PORT, which is
where every one of these clients looks for it.
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

from stream_manager import (
    AssetPropertyValue,
    ConnectFailedException,
    ExportDefinition,
    ExportFormat,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    MessageStreamDefinition,
    Persistence,
    PutAssetPropertyValueEntry,
    Quality,
    ReadMessagesOptions,
    ResourceNotFoundException,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    StatusConfig,
    StatusLevel,
    StrategyOnFull,
    StreamManagerClient,
    StreamManagerException,
    TimeInNanos,
    Util,
    Variant,
)

MIB = 1024 * 1024
PARALLEL = 20
# Noticing a closed socket takes milliseconds.
NOTICE_TIMEOUT_S = 10


def operations():
    """All seven, in the order in which a program's life uses them."""
    client = StreamManagerClient()
    results = {}
    try:
        client.delete_message_stream("Minimal")
    except ResourceNotFoundException:
        results["nothing to delete"] = True
    client.create_message_stream(
        MessageStreamDefinition(name="Minimal", strategy_on_full=StrategyOnFull.OverwriteOldestData)
    )
    client.create_message_stream(full_definition())
    client.create_message_stream(definition_with_every_none())
    results["names"] = client.list_streams()
    results["minimal"] = client.describe_message_stream("Minimal").as_dict()
    results["full"] = client.describe_message_stream("Full, with all.log").as_dict()
    results["nones"] = client.describe_message_stream("Nones").as_dict()
    results["messages"] = append_and_read(client)
    results["json"] = append_and_read_json(client)
    results["update"] = update(client)
    client.delete_message_stream("Minimal")
    results["names after delete"] = client.list_streams()
    results["describe after delete"] = caught(client.describe_message_stream, "Minimal")
    client.close()
    return results


def full_definition():
    """Every field of every type, none of them at its default."""
    batch = {"batch_interval_millis": 60000, "start_sequence_number": 0, "disabled": True}
    return MessageStreamDefinition(
        name="Full, with all.log",
        max_size=64 * MIB,
        stream_segment_size=MIB,
        time_to_live_millis=3600000,
        strategy_on_full=StrategyOnFull.RejectNewData,
        persistence=Persistence.File,
        flush_on_write=True,
        export_definition=ExportDefinition(
            http=[
                HTTPConfig(
                    identifier="http",
                    uri="http://127.0.0.1:9/",
                    batch_size=20,
                    priority=1,
                    export_format=ExportFormat.JSON_BATCHED,
                    **batch,
                )
            ],
            iot_analytics=[
                IoTAnalyticsConfig(
                    identifier="analytics",
                    iot_channel="channel",
                    iot_msg_id_prefix="prefix",
                    batch_size=30,
                    priority=2,
                    **batch,
                )
            ],
            kinesis=[
                KinesisConfig(
                    identifier="kinesis",
                    kinesis_stream_name="target",
                    batch_size=40,
                    priority=3,
                    **batch,
                )
            ],
            iot_sitewise=[
                IoTSiteWiseConfig(identifier="sitewise", batch_size=5, priority=4, **batch)
            ],
            s3_task_executor=[
                S3ExportTaskExecutorConfig(
                    identifier="s3",
                    size_threshold_for_multipart_upload_bytes=8 * MIB,
                    priority=10,
                    disabled=True,
                    status_config=StatusConfig(
                        status_level=StatusLevel.TRACE, status_stream_name="Minimal"
                    ),
                )
            ],
        ),
    )


def definition_with_every_none():
    """The guide's way of showing optional values: written out as None."""
    return MessageStreamDefinition(
        name="Nones",
        max_size=268435456,
        stream_segment_size=16777216,
        time_to_live_millis=None,
        strategy_on_full=StrategyOnFull.OverwriteOldestData,
        persistence=Persistence.Memory,
        flush_on_write=False,
        export_definition=ExportDefinition(
            kinesis=None, iot_analytics=None, iot_sitewise=None, s3_task_executor=None
        ),
    )


def append_and_read(client):
    before_ms = time.time_ns() // 1_000_000
    numbers = [client.append_message("Minimal", data) for data in (b"one", b"\x00\xff", b"three")]
    after_ms = time.time_ns() // 1_000_000
    every = client.read_messages(
        "Minimal",
        ReadMessagesOptions(
            desired_start_sequence_number=0,
            min_message_count=3,
            max_message_count=10,
            read_timeout_millis=1000,
        ),
    )
    from_one = ReadMessagesOptions(
        desired_start_sequence_number=1, min_message_count=1, max_message_count=1
    )
    return {
        "numbers": numbers,
        "without options": contents(client.read_messages("Minimal")),
        "two and no maximum": contents(
            client.read_messages("Minimal", ReadMessagesOptions(min_message_count=2))
        ),
        "one from the middle": contents(client.read_messages("Minimal", from_one)),
        "all": contents(every),
        "stream names": sorted({message.stream_name for message in every}),
        "ingest times are right": all(
            before_ms <= message.ingest_time <= after_ms for message in every
        ),
        "storage": client.describe_message_stream("Minimal").storage_status.as_dict(),
    }


def append_and_read_json(client):
    """Payloads for S3 and SiteWise exports, made and read with the SDK's helpers."""
    task = S3ExportTaskDefinition(
        input_url="file:///tmp/input",
        bucket="bucket",
        key="key/!{timestamp:yyyy/MM}",
        user_metadata={"colour": "blue"},
    )
    value = AssetPropertyValue(
        value=Variant(double_value=1.5),
        timestamp=TimeInNanos(time_in_seconds=1700000000, offset_in_nanos=7),
        quality=Quality.GOOD,
    )
    entry = PutAssetPropertyValueEntry(
        entry_id="entry-1", property_alias="/a/b", property_values=[value]
    )
    name = "Full, with all.log"
    for data in (task, entry):
        client.append_message(name, Util.validate_and_serialize_to_json_bytes(data))
    first, second = client.read_messages(name, ReadMessagesOptions(min_message_count=2))
    task_again = Util.deserialize_json_bytes_to_obj(first.payload, S3ExportTaskDefinition)
    entry_again = Util.deserialize_json_bytes_to_obj(second.payload, PutAssetPropertyValueEntry)
    return {
        "payloads": [json.loads(first.payload), json.loads(second.payload)],
        "key": task_again.key,
        "value": entry_again.property_values[0].value.double_value,
    }


def update(client):
    """The guide's way: describe, change, send back."""
    info = client.describe_message_stream("Minimal")
    client.update_message_stream(info.definition)
    info.definition.max_size = 512 * MIB
    info.definition.stream_segment_size = 32 * MIB
    info.definition.time_to_live_millis = 3600000
    info.definition.strategy_on_full = StrategyOnFull.RejectNewData
    info.definition.flush_on_write = True
    info.definition.export_definition.kinesis = [
        KinesisConfig(
            identifier="added", kinesis_stream_name="target", batch_size=500, disabled=True
        )
    ]
    client.update_message_stream(info.definition)
    return client.describe_message_stream("Minimal").as_dict()


def errors():
    """Everything that a server refuses, and that the connection survives it."""
    client = StreamManagerClient()
    small = MessageStreamDefinition(
        name="Small", max_size=1024, strategy_on_full=StrategyOnFull.RejectNewData
    )
    client.create_message_stream(small)
    client.append_message("Small", bytes(900))
    client.create_message_stream(plain("Memory", persistence=Persistence.Memory))
    client.create_message_stream(plain("File"))
    client.append_message("File", b"the only one")
    results = {
        "create twice": caught(client.create_message_stream, small),
        "append to unknown": caught(client.append_message, "Unknown", b"x"),
        "read unknown": caught(client.read_messages, "Unknown"),
        "describe unknown": caught(client.describe_message_stream, "Unknown"),
        "update unknown": caught(client.update_message_stream, plain("Unknown")),
        "delete unknown": caught(client.delete_message_stream, "Unknown"),
        "append to full": caught(client.append_message, "Small", bytes(900)),
        "append more than fits": caught(client.append_message, "Small", bytes(2000)),
        "append nothing": caught(client.append_message, "File", b""),
        "create too small": caught(client.create_message_stream, plain("New", max_size=1)),
        "create with identifier twice": caught(
            client.create_message_stream, plain("New", export_definition=exports_of_one_name())
        ),
    }
    results |= read_errors(client) | update_errors(client)
    results["streams afterwards"] = client.list_streams()
    results["append afterwards"] = client.append_message("File", b"the second one")
    client.close()
    results["list after close"] = caught(client.list_streams)
    return results


def read_errors(client):
    past_the_end = ReadMessagesOptions(desired_start_sequence_number=1)
    too_many = ReadMessagesOptions(min_message_count=2)
    too_many_in_vain = ReadMessagesOptions(min_message_count=2, read_timeout_millis=300)
    minimum_above_maximum = ReadMessagesOptions(min_message_count=2, max_message_count=1)
    return {
        "read past the end": caught(client.read_messages, "File", past_the_end),
        "read too many": caught(client.read_messages, "File", too_many),
        "wait for too many": caught(client.read_messages, "File", too_many_in_vain),
        "read with minimum above maximum": caught(
            client.read_messages, "File", minimum_above_maximum
        ),
    }


def update_errors(client):
    to_file = plain("Memory", persistence=Persistence.File)
    to_memory = plain("File", persistence=Persistence.Memory)
    below_segment_size = plain("File", max_size=1024, stream_segment_size=2048)
    return {
        "update memory to file": caught(client.update_message_stream, to_file),
        "update file to memory": caught(client.update_message_stream, to_memory),
        "update below segment size": caught(client.update_message_stream, below_segment_size),
    }


def plain(name, **fields):
    return MessageStreamDefinition(
        name=name, strategy_on_full=StrategyOnFull.OverwriteOldestData, **fields
    )


def exports_of_one_name():
    return ExportDefinition(
        http=[HTTPConfig(identifier="same", uri="http://127.0.0.1:9/", disabled=True)],
        kinesis=[KinesisConfig(identifier="same", kinesis_stream_name="target", disabled=True)],
    )


def tokens():
    """Connect once with each token of the command line; an empty one means none."""
    return {token: connect_with(token) for token in sys.argv[2:]}


def connect_with(token):
    os.environ.pop("AWS_CONTAINER_AUTHORIZATION_TOKEN", None)
    if token:
        os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = token
    try:
        with StreamManagerClient() as client:
            return {"streams": client.list_streams()}
    except ConnectFailedException as error:
        return failure(error)


def parallel():
    """Twenty appends at once on one connection, then twenty reads."""
    client = StreamManagerClient()
    client.create_message_stream(plain("Parallel"))
    together = Barrier(PARALLEL)

    def append(data):
        together.wait()
        return client.append_message("Parallel", data.encode())

    def read(number):
        together.wait()
        options = ReadMessagesOptions(desired_start_sequence_number=number)
        return contents(client.read_messages("Parallel", options))

    payloads = [f"message of thread {thread}" for thread in range(PARALLEL)]
    with ThreadPoolExecutor(PARALLEL) as pool:
        numbers = list(pool.map(append, payloads))
        messages = list(pool.map(read, range(PARALLEL)))
    client.close()
    return {"appended": list(zip(numbers, payloads, strict=True)), "read": messages}


def waiting_read():
    """A read that waits for five messages while the same connection appends them."""
    client = StreamManagerClient()
    client.create_message_stream(plain("Awaited"))
    about_to_read = Event()

    def read():
        options = ReadMessagesOptions(
            min_message_count=5, max_message_count=5, read_timeout_millis=10000
        )
        begin = time.monotonic()
        about_to_read.set()
        messages = client.read_messages("Awaited", options)
        return contents(messages), time.monotonic() - begin

    appends_s = []
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read)
        about_to_read.wait()
        for number in range(5):
            done_early = reading.done()
            begin = time.monotonic()
            client.append_message("Awaited", f"message {number}".encode())
            appends_s.append(time.monotonic() - begin)
        messages, read_s = reading.result()
    client.close()
    return {
        "messages": messages,
        "read_s": read_s,
        "appends_s": appends_s,
        "read done before the fifth append": done_early,
    }


def reconnect():
    """The same client object before, during and after two deaths of the server."""
    client = StreamManagerClient()
    client.create_message_stream(plain("Kept", time_to_live_millis=3600000))
    client.create_message_stream(plain("Deleted"))
    client.create_message_stream(plain("Forgotten", persistence=Persistence.Memory))
    client.delete_message_stream("Deleted")
    acknowledged = append_some(client, "first life")
    tell(event="acknowledged")
    hear("killed")
    wait_until_noticed(client)
    tell(event="noticed", outage=caught_without_server(client))
    hear("restarted")
    second_life = {"streams": client.list_streams(), "stored": read_all(client)}
    acknowledged += append_some(client, "second life")
    tell(event="acknowledged")
    hear("killed")
    wait_until_noticed(client)
    tell(event="noticed")
    hear("restarted")
    third_life = {
        "stored": read_all(client),
        "kept": client.describe_message_stream("Kept").as_dict(),
    }
    client.close()
    return {
        "acknowledged": acknowledged,
        "second life": second_life,
        "third life": third_life,
    }


def append_some(client, text):
    payloads = [f"{text} {count}" for count in range(5)]
    return [[client.append_message("Kept", data.encode()), data] for data in payloads]


def read_all(client):
    return contents(client.read_messages("Kept", ReadMessagesOptions(max_message_count=1000)))


def wait_until_noticed(client):
    """AWS's SDK notices in a thread of its own, and sets this attribute; there is no event for it.

    A call before that would wait for an answer until its timeout. Penstock's client has no such
    thread, hence no such moment: it looks when it is called.
    """
    deadline = time.monotonic() + NOTICE_TIMEOUT_S
    while getattr(client, "connected", False):
        assert time.monotonic() < deadline, "the client still believes to be connected"
        time.sleep(0.01)


def caught_without_server(client):
    try:
        client.append_message("Kept", b"nobody listens")
    except ConnectionError as error:
        return failure(error)
    return None


def contents(messages):
    return [[message.sequence_number, message.payload.decode("latin-1")] for message in messages]


def caught(function, *arguments):
    """What a call was refused with; None if it was not."""
    try:
        function(*arguments)
    except StreamManagerException as error:
        return failure(error)
    return None


def failure(error):
    status = getattr(error, "status", None)
    return {
        "kinds": [kind.__name__ for kind in type(error).__mro__],
        "status": None if status is None else status.value,
        "text": str(error),
    }


def tell(**values):
    print(json.dumps(values), flush=True)


def hear(word):
    heard = sys.stdin.readline().strip()
    assert heard == word, f"expected {word!r}, heard {heard!r}"


SCENARIOS = {
    function.__name__: function
    for function in (operations, errors, tokens, parallel, waiting_read, reconnect)
}

if __name__ == "__main__":
    tell(event="result", **SCENARIOS[sys.argv[1]]())
