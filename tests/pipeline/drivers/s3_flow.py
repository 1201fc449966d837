"""Upload a file and read its statuses until a final one: arguments are file, bucket and key.

Prints each status; ends well when the upload did.
"""

import sys

from stream_manager import (
    ExportDefinition,
    MessageStreamDefinition,
    NotEnoughMessagesException,
    ReadMessagesOptions,
    ResourceNotFoundException,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    Status,
    StatusConfig,
    StatusLevel,
    StatusMessage,
    StrategyOnFull,
    StreamManagerClient,
    Util,
)

TASKS = "Uploads"
STATUSES = "UploadStatuses"
FINAL = (Status.Success, Status.Failure, Status.Canceled)


def main(path, bucket, key):
    client = StreamManagerClient()
    for name in (STATUSES, TASKS):
        try:
            client.delete_message_stream(name)
        except ResourceNotFoundException:
            print("nothing to delete", file=sys.stderr)
    client.create_message_stream(
        MessageStreamDefinition(name=STATUSES, strategy_on_full=StrategyOnFull.OverwriteOldestData)
    )
    statuses = StatusConfig(status_level=StatusLevel.INFO, status_stream_name=STATUSES)
    exports = ExportDefinition(
        s3_task_executor=[
            S3ExportTaskExecutorConfig(identifier="ToS3", status_config=statuses),
        ]
    )
    client.create_message_stream(
        MessageStreamDefinition(
            name=TASKS,
            strategy_on_full=StrategyOnFull.OverwriteOldestData,
            export_definition=exports,
        )
    )
    task = S3ExportTaskDefinition(input_url=f"file://{path}", bucket=bucket, key=key)
    number = client.append_message(TASKS, Util.validate_and_serialize_to_json_bytes(task))
    status = last_status(client, number)
    client.close()
    return 0 if status == Status.Success else 1


def last_status(client, number):
    """Read on and on, as long as no final status of the task is there."""
    position = 0
    while True:
        options = ReadMessagesOptions(
            desired_start_sequence_number=position,
            min_message_count=1,
            max_message_count=5,
            read_timeout_millis=1000,
        )
        try:
            messages = client.read_messages(STATUSES, options)
        except NotEnoughMessagesException:
            continue
        for message in messages:
            position = message.sequence_number + 1
            status = Util.deserialize_json_bytes_to_obj(message.payload, StatusMessage)
            if status.status_context.sequence_number != number:
                continue
            print(status.status.name, status.message or "", flush=True)
            if status.status in FINAL:
                return status.status


sys.exit(main(*sys.argv[1:]))
