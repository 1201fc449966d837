"""`penstock verify`: check a store offline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.output import (
    Column,
    CommandFailed,
    Status,
    closing_output,
    explained,
    plural,
    say,
    show_json,
    show_table,
)
from penstock.errors import StoreError
from penstock.units import rounded_bytes

if TYPE_CHECKING:
    from penstock.streams.verify import StreamReport, VerifyReport

COLUMNS = (
    Column("Stream"),
    Column("Messages", is_number=True),
    Column("Size", is_number=True),
    Column("First", is_number=True),
    Column("Next", is_number=True),
    Column("Result"),
)


@click.command()
@click.argument("data_dir", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(data_dir: str, as_json: bool) -> int:
    """Check every stored byte in DATA_DIR against its checksum. Nothing is changed.

    The server that uses DATA_DIR must be stopped. Exit status: 0 sound, 1 damage found, 2 the store
    cannot be checked.
    """
    from penstock.streams.verify import verify_store

    try:
        report = verify_store(data_dir)
    except (StoreError, OSError) as error:
        failure = explained(error)
        assert failure is not None, "both kinds are expected errors"
        raise CommandFailed(failure.text, Status.WRONG_USAGE) from error
    with closing_output():  # the status tells the truth, however much of the report is read
        if as_json:
            show_json(_as_json(report))
        else:
            _show(report)
    return Status.FAILED if report.damaged else Status.DONE


def _as_json(report: VerifyReport) -> dict[str, Any]:
    return {
        "damaged": report.damaged,
        "findings": report.findings,
        "streams": [
            {
                "name": stream.name,
                "folder": stream.folder,
                "messageCount": stream.message_count,
                "totalBytes": stream.total_bytes,
                "firstSequenceNumber": stream.first_sequence,
                "nextSequenceNumber": stream.next_sequence,
                "findings": stream.findings,
                "notes": stream.notes,
            }
            for stream in report.streams
        ],
    }


def _show(report: VerifyReport) -> None:
    if report.streams:
        show_table(COLUMNS, [_row(stream) for stream in report.streams])
    findings = [*report.findings]
    for stream in report.streams:
        findings += [f"{stream.name}: {text} ({stream.folder})" for text in stream.findings]
        for note in stream.notes:
            say(f"Note: {stream.name}: {note}")
    for finding in findings:
        say(f"Damage: {finding}")
    held = plural(sum(stream.message_count for stream in report.streams), "message")
    summary = f"{plural(len(report.streams), 'stream')}, {held}"
    say(f"{summary}: {plural(len(findings), 'finding')}." if findings else f"{summary}: sound.")


def _row(stream: StreamReport) -> list[str]:
    return [
        stream.name,
        f"{stream.message_count:,}",
        rounded_bytes(stream.total_bytes),
        str(stream.first_sequence),
        str(stream.next_sequence),
        "damaged" if stream.findings else "sound",
    ]
