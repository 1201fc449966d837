"""A transform as its operator declares it; it travels to the pipeline in this form."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from penstock.model import Model
from penstock.transforms.keys import TARGET_KEYS, TRANSFORM_KEYS, found_values, shown_keys

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# What the SQL statement calls the stream's messages.
SOURCE_VIEW = "source"
# Columns of the view besides those of the schema.
SEQUENCE_COLUMN, TIME_COLUMN, PAYLOAD_COLUMN = "sequence_number", "ingest_time", "payload"
MALFORMED_COLUMN = "_malformed"
LETTERS_PREFIX = "transform "
TARGET_KINDS = ("stream", "table", "format")


class Target(Model):
    """Where the rows go: exactly one of stream, table and format is given."""

    stream: str = ""
    create: bool = True
    table: str = ""
    partition_by: list[str] = []
    format: str = ""
    options: dict[str, str] = {}

    def __str__(self) -> str:
        if self.stream:
            return f"stream {self.stream}"
        return f"table {self.table}" if self.table else f"format {self.format}"


class Transform(Model):
    """What a transform does."""

    name: str
    source: str
    sql: str
    target: Target
    format: str = "json"
    schema: str = ""
    options: dict[str, str] = {}
    watermark: str = ""
    malformed: str = "dead-letters"
    output_mode: str = "append"
    trigger: str = "1 second"
    start: str = "earliest"
    # Holds what is in memory at once: 100,000 rows of some hundred bytes fit the pipeline's heap.
    messages_per_batch_max: int = 100_000
    fail_on_data_loss: bool = False
    enabled: bool = True

    @property
    def letters_name(self) -> str:
        """What dead letters have in place of an export's identifier."""
        return f"{LETTERS_PREFIX}{self.name}"

    @property
    def keeps_letters(self) -> bool:
        return self.format != "raw" and self.malformed == "dead-letters"

    @property
    def watermark_parts(self) -> tuple[str, str]:
        """Column and delay."""
        column, _, delay = self.watermark.partition(" ")
        return column, delay


def declared(tables: object, folder: str) -> tuple[list[Transform], list[str]]:
    """The transforms of a file's table `transforms`, and a sentence for each problem.

    `folder` is what relative tables start from.
    """
    if not isinstance(tables, dict):
        return [], ["transforms is not a table. Write [transforms.NAME], a table for each."]
    found, problems = [], []
    for name, table in tables.items():
        transform, wrong = _declared_one(name, table, folder)
        problems += [f'transform "{name}": {each}' for each in wrong]
        if transform is not None:
            found.append(transform)
    return found, problems + list(_contradictions(found))


def _declared_one(name: str, table: object, folder: str) -> tuple[Transform | None, list[str]]:
    if not NAME.fullmatch(name):
        return None, [
            "the name cannot be used. Give 1 to 64 letters, digits, hyphens and underscores."
        ]
    if not isinstance(table, dict):
        return None, [f"it is not a table. Write [transforms.{name}] above its keys."]
    values, problems = found_values(table, TRANSFORM_KEYS)
    target, target_problems = _declared_target(table.get("target"), name, folder)
    problems += target_problems
    problems += _missing(values, table)
    if problems or target is None:
        return None, problems
    transform = Transform(name=name, target=target, **values)
    problems = list(_misfits(transform, table))
    return (None if problems else transform), problems


def _declared_target(table: object, name: str, folder: str) -> tuple[Target | None, list[str]]:
    if not isinstance(table, dict):
        return None, [
            f'key "target" is missing. Add [transforms.{name}.target] with one of '
            f"{shown_keys(TARGET_KINDS)}."
        ]
    values, problems = found_values(table, TARGET_KEYS)
    problems = [f"target: {each}" for each in problems]
    kinds = [kind for kind in TARGET_KINDS if kind in table]
    if len(kinds) != 1:
        given = f"{' and '.join(kinds)} are given" if kinds else "no place is given"
        problems.append(f"target: {given}. Give exactly one of {shown_keys(TARGET_KINDS)}.")
    problems += [
        f'target: key "{key}" belongs to {kind}. Remove it.'
        for key, kind in {"create": "stream", "partition_by": "table"}.items()
        if key in table and len(kinds) == 1 and kinds[0] != kind
    ]
    if problems:
        return None, problems
    if values.get("table") and "://" not in values["table"]:
        values["table"] = os.path.abspath(os.path.join(folder, values["table"]))
    return Target(**values), []


def _missing(values: Mapping[str, object], table: Mapping[str, object]) -> Iterator[str]:
    needed = {
        "source": "Name the stream that it reads.",
        "sql": f"Give one SELECT statement over {SOURCE_VIEW}.",
    }
    for key, remedy in needed.items():
        if key not in table:
            yield f'key "{key}" is missing. {remedy}'
    if "schema" not in table and values.get("format", "json") != "raw":
        stream = values.get("source", "STREAM")
        yield (
            f'key "schema" is missing. `penstock transforms infer {stream}` prints one, or give '
            'format = "raw".'
        )


def _misfits(transform: Transform, table: Mapping[str, object]) -> Iterator[str]:
    """Keys that do not go together."""
    if transform.format == "raw":
        for key in ("schema", "options", "malformed"):
            if key in table:
                yield f'key "{key}" has no meaning with format = "raw". Remove one of them.'
    if transform.target.stream == transform.source:
        yield (
            f'key "target.stream" is its own source, {transform.source}: it would never come to an '
            "end. Name another stream."
        )
    if transform.output_mode != "append" and not transform.target.format:
        kind = "stream" if transform.target.stream else "table"
        yield (
            f'key "output_mode" is "{transform.output_mode}", but a {kind} can only be appended '
            'to. Give "append", and a watermark if the SQL aggregates.'
        )


def _contradictions(transforms: Iterable[Transform]) -> Iterator[str]:
    """What transforms must not do to each other."""
    names_by_table: dict[str, str] = {}
    for transform in transforms:
        table = transform.target.table
        if table and table in names_by_table:
            yield (
                f'transform "{transform.name}": key "target.table" is {table}, as in transform '
                f'"{names_by_table[table]}": Spark would skip rows of one of them. Name another '
                "folder."
            )
        names_by_table[table] = transform.name
    yield from _circles(transforms)


def _circles(transforms: Iterable[Transform]) -> Iterator[str]:
    """Streams that feed themselves by way of others."""
    targets: dict[str, list[Transform]] = {}
    for transform in transforms:
        if transform.target.stream:
            targets.setdefault(transform.source, []).append(transform)
    for first in sorted(targets):
        reached, ahead = set[str](), [first]
        while ahead:
            for transform in targets.get(ahead.pop(), []):
                stream = transform.target.stream
                if stream == first:
                    yield (
                        f'transform "{transform.name}": its target, stream {stream}, comes back to '
                        "its source by way of other transforms: it would never come to an end. "
                        "Name another target."
                    )
                elif stream not in reached:
                    reached.add(stream)
                    ahead.append(stream)
