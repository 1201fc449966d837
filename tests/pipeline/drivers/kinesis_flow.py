"""Send readings to a Kinesis data stream: arguments are its name and how many."""

import sys

from stream_manager import (
    ExportDefinition,
    KinesisConfig,
    MessageStreamDefinition,
    ResourceNotFoundException,
    StrategyOnFull,
    StreamManagerClient,
)

STREAM = "SensorReadings"


def main(kinesis_stream, count):
    client = StreamManagerClient()
    try:
        client.delete_message_stream(STREAM)
    except ResourceNotFoundException:
        print("nothing to delete", file=sys.stderr)
    exports = ExportDefinition(
        kinesis=[KinesisConfig(identifier="ToKinesis", kinesis_stream_name=kinesis_stream)]
    )
    client.create_message_stream(
        MessageStreamDefinition(
            name=STREAM,
            strategy_on_full=StrategyOnFull.OverwriteOldestData,
            export_definition=exports,
        )
    )
    for number in range(count):
        client.append_message(STREAM, f"reading {number}".encode())
    client.close()


main(sys.argv[1], int(sys.argv[2]))
