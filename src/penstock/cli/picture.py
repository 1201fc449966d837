"""A server at one moment as a picture for a terminal: the troubled first, and no more than fits."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from rich.console import ConsoleDimensions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.output import plural, printable, ruled_table
from penstock.cli.status import DESTINATIONS, shown_age
from penstock.export_model import ExportView, PipelineView
from penstock.observe_model import Observation, ServerView
from penstock.transforms.reports import TransformView
from penstock.units import rounded_bytes

View = TypeVar("View", ExportView, TransformView)

# Words say the state; colours only help to find it.
STYLES = {
    "blocked": "bold red",
    "unavailable": "bold red",
    "backing off": "yellow",
    "restarting": "yellow",
    "paused": "magenta",
    "starting": "cyan",
    "due": "cyan",
    "sending": "green",
    "running": "green",
    "idle": "dim",
}
# What needs a person comes first. States that follow each other within a second share a place, so
# that rows do not jump.
PLACES = {"blocked": 0, "backing off": 1, "paused": 4, "idle": 5}
PLACE_TROUBLED_BEFORE = 2  # it works, but has lost or refused messages
PLACE_AT_WORK = 3
# Rates are over this long: shorter ones flicker, longer ones lie.
PACE_WINDOW_S = 10.0
# The head of the picture: server, pipeline, streams, and an empty line.
HEAD_LINES = 4
# A table costs its heading, a rule, and the line about what did not fit.
TABLE_LINES = 3


class Pace:
    """How fast numbers change, from what was seen in the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, dict[Hashable, int]]] = deque()

    def note(self, now_s: float, numbers: dict[Hashable, int]) -> None:
        self._seen.append((now_s, numbers))
        while len(self._seen) > 2 and self._seen[1][0] <= now_s - PACE_WINDOW_S:
            self._seen.popleft()

    def per_second(self, key: Hashable) -> float | None:
        """None as long as it cannot be told."""
        points = [(time_s, numbers[key]) for time_s, numbers in self._seen if key in numbers]
        if len(points) < 2:
            return None
        (start_s, before), (end_s, after) = points[0], points[-1]
        return (after - before) / (end_s - start_s)


def numbers_of(observation: Observation) -> dict[Hashable, int]:
    """What a Pace is to watch."""
    lags: dict[Hashable, int] = {_key(view): view.lag_messages for view in observation.exports}
    return lags | {"appended": observation.server.appended_messages}


def picture(
    observation: Observation,
    pace: Pace,
    size: ConsoleDimensions,
    address: str,
    trouble: str = "",
) -> RenderableType:
    """Everything that fits the window."""
    parts: list[RenderableType] = [
        _cut(line) for line in _head(observation, pace, address, trouble)
    ]
    left = size.height - HEAD_LINES
    transforms = sorted(observation.transforms, key=_transform_place)
    if transforms:
        # Exports are what most people look for: they get two thirds, and more if it is not used.
        wanted = TABLE_LINES + 1 + sum(map(_lines, transforms))
        left -= min(wanted, max(left // 3, TABLE_LINES + 3))
    exports = sorted(observation.exports, key=_export_place)
    if exports:
        parts += _exports(exports, left, pace, observation.server.server_time)
    else:
        parts.append(Text("No stream has an export."))
    if transforms:
        used = HEAD_LINES + _height(exports, left)
        now_ms = observation.server.server_time
        parts += [Text(), *_transforms(transforms, size.height - used - 1, now_ms)]
    return Group(*parts)


# --- the head -----------------------------------------------------------------------------------


def _head(observation: Observation, pace: Pace, address: str, trouble: str) -> Iterable[Text]:
    yield Text(printable(trouble), "bold red") if trouble else _server(observation.server, address)
    yield _pipeline(observation.pipeline, observation.server.server_time)
    yield _streams(observation, pace.per_second("appended"))
    yield Text()


def _server(server: ServerView, address: str) -> Text:
    up = shown_age(max(0, server.server_time - server.started_time))
    free = f"{rounded_bytes(server.disk_free_bytes)} of {rounded_bytes(server.disk_total_bytes)}"
    clients = plural(server.connections, "connection")
    return Text.assemble(
        (f"Penstock {server.version}", "bold"),
        f" on {address}, up {up}, {clients}, disk free {free}",
    )


def _pipeline(pipeline: PipelineView, now_ms: int) -> Text:
    line = Text.assemble("Pipeline: ", (pipeline.state, STYLES.get(pipeline.state, "")))
    if pipeline.restarts:
        line.append(f", {plural(pipeline.restarts, 'restart')}")
    if pipeline.next_start_time is not None:
        line.append(f", next start {countdown(pipeline.next_start_time, now_ms)}")
    if pipeline.text:
        line.append(f": {printable(pipeline.text)}")
    return line


def _streams(observation: Observation, per_second: float | None) -> Text:
    streams = observation.streams
    messages = sum(
        view.newest_sequence_number - view.oldest_sequence_number + 1 for view in streams
    )
    size = rounded_bytes(sum(view.total_bytes for view in streams))
    line = f"{plural(len(streams), 'stream')}, {plural(messages, 'message')}, {size}"
    if per_second is not None:
        line += f", {per_second:,.0f} messages appended per second"
    return Text(line)


# --- exports ------------------------------------------------------------------------------------


def _exports(
    views: Sequence[ExportView], height: int, pace: Pace, now_ms: int
) -> list[RenderableType]:
    shown, rest = _fitting(views, height)
    table = _table(
        ("Stream", "Export", "To", "State"), ("Lag", "Change/s", "Age", "Sent/s", "Dead")
    )
    for view in shown:
        change = pace.per_second(_key(view))
        table.add_row(
            *_plain(view.stream_name, view.export_identifier),
            *_plain(f"{DESTINATIONS.get(view.destination, view.destination)} {view.target}"),
            _state(view),
            f"{view.lag_messages:,}",
            _change(change),
            shown_age(view.lag_age_millis),
            f"{view.messages_per_second:,.0f}",
            Text(f"{view.dead_letters:,}", "red" if view.dead_letters else ""),
        )
    notes = [
        _note(f"{view.stream_name}, {view.export_identifier}", view, now_ms)
        for view in shown
        if _has_note(view)
    ]
    return [table, *notes, *_rest_line(rest, "export")]


def _change(per_second: float | None) -> Text:
    """How fast the lag grows or shrinks."""
    rounded = 0 if per_second is None else round(per_second)
    if rounded == 0:
        return Text("" if per_second is None else "0", "dim")
    return Text(f"{rounded:+,}", "yellow" if rounded > 0 else "green")


def _export_place(view: ExportView) -> tuple[int, int, str, str]:
    """Trouble first; then the largest lag, by powers of two so that rows stay in their places."""
    place = PLACES.get(view.state)
    if place is None:
        troubled = bool(view.dead_letters or view.lost_messages)
        place = PLACE_TROUBLED_BEFORE if troubled else PLACE_AT_WORK
    return place, -view.lag_age_millis.bit_length(), view.stream_name, view.export_identifier


def _key(view: ExportView) -> tuple[str, str]:
    return view.stream_name, view.export_identifier


# --- transforms ---------------------------------------------------------------------------------


def _transforms(views: Sequence[TransformView], height: int, now_ms: int) -> list[RenderableType]:
    shown, rest = _fitting(views, height)
    table = _table(("Transform", "From", "To", "State"), ("Lag", "In/s", "Out/s", "Dead"))
    for view in shown:
        table.add_row(
            *_plain(view.name, view.source, view.target),
            _state(view),
            "" if view.lag_messages is None else f"{view.lag_messages:,}",
            f"{view.rows_in_per_second:,.0f}",
            f"{view.rows_out_per_second:,.0f}",
            Text(f"{view.dead_letters:,}", "red" if view.dead_letters else ""),
        )
    notes = [_note(view.name, view, now_ms) for view in shown if _has_note(view)]
    return [table, *notes, *_rest_line(rest, "transform")]


def _transform_place(view: TransformView) -> tuple[int, str]:
    return PLACES.get(view.state, PLACE_AT_WORK), view.name


# --- what both have -----------------------------------------------------------------------------


def _fitting(views: Sequence[View], height: int) -> tuple[list[View], list[View]]:
    """The first ones whose lines fit under a heading; at least one, whatever the height."""
    left = height - TABLE_LINES
    for position, view in enumerate(views):
        left -= _lines(view)
        if left < 0 and position:
            return list(views[:position]), list(views[position:])
    return list(views), []


def _height(views: Sequence[View], height: int) -> int:
    """The lines that these take when they may have so many."""
    if not views:
        return 1
    shown, rest = _fitting(views, height)
    return TABLE_LINES - (not rest) + sum(map(_lines, shown))


def _lines(view: View) -> int:
    return 1 + _has_note(view)


def _has_note(view: View) -> bool:
    return bool(view.last_error or view.lost_messages or view.next_retry_time is not None)


def _note(name: str, view: View, now_ms: int) -> Text:
    """Why it is so, and until when, in one line."""
    parts = []
    if view.next_retry_time is not None:
        tries = "try" if view.tries == 1 else "tries"
        parts.append(f"next {countdown(view.next_retry_time, now_ms)} after {view.tries} {tries}")
    if view.lost_messages:
        parts.append(f"{plural(view.lost_messages, 'message')} lost")
    if view.last_error:
        parts.append(view.last_error)
    line = Text.assemble((printable(name), STYLES.get(view.state, "")), ": ")
    return _cut(line.append(printable("; ".join(parts))))


def _rest_line(rest: Sequence[View], noun: str) -> list[Text]:
    if not rest:
        return []
    counts = Counter(view.state for view in rest)
    states = ", ".join(f"{count:,} {state}" for state, count in counts.most_common())
    return [_cut(Text(f"... and {plural(len(rest), f'more {noun}')}: {states}", "dim"))]


def countdown(time_ms: int, now_ms: int) -> str:
    """'in 12 s', 'now'."""
    left_ms = time_ms - now_ms
    return f"in {shown_age(left_ms)}" if left_ms >= 1000 else "now"


def _state(view: View) -> Text:
    return Text(view.state, STYLES.get(view.state, ""), no_wrap=True)


def _table(texts: Sequence[str], numbers: Sequence[str]) -> Table:
    table = ruled_table()
    for title in texts:
        table.add_column(title)  # these give way when the window is narrow
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _plain(*cells: str) -> list[Text]:
    """Names are data, not rich's markup."""
    return [_cut(Text(printable(cell))) for cell in cells]


def _cut(line: Text) -> Text:
    line.no_wrap = True
    line.overflow = "ellipsis"
    return line
