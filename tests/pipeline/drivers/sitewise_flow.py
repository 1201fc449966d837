"""Send measured values to SiteWise: arguments are the property's alias and how many."""

import sys
import time
import uuid

from stream_manager import (
    AssetPropertyValue,
    ExportDefinition,
    IoTSiteWiseConfig,
    MessageStreamDefinition,
    PutAssetPropertyValueEntry,
    Quality,
    ResourceNotFoundException,
    StrategyOnFull,
    StreamManagerClient,
    TimeInNanos,
    Util,
    Variant,
)

STREAM = "Measurements"


def main(alias, count):
    client = StreamManagerClient()
    try:
        client.delete_message_stream(STREAM)
    except ResourceNotFoundException:
        print("nothing to delete", file=sys.stderr)
    exports = ExportDefinition(
        iot_sitewise=[IoTSiteWiseConfig(identifier="ToSiteWise", batch_size=5)]
    )
    client.create_message_stream(
        MessageStreamDefinition(
            name=STREAM,
            strategy_on_full=StrategyOnFull.RejectNewData,
            export_definition=exports,
        )
    )
    for number in range(count):
        client.append_message(
            STREAM, Util.validate_and_serialize_to_json_bytes(entry(alias, number))
        )
    client.close()


def entry(alias, number):
    now = time.time_ns()
    at = TimeInNanos(time_in_seconds=now // 10**9, offset_in_nanos=now % 10**9)
    value = AssetPropertyValue(
        value=Variant(double_value=number / 2), quality=Quality.GOOD, timestamp=at
    )
    return PutAssetPropertyValueEntry(
        entry_id=str(uuid.uuid4()), property_alias=alias, property_values=[value]
    )


main(sys.argv[1], int(sys.argv[2]))
