"""`penstock local-cloud`: a cloud on this machine, in the foreground."""

from __future__ import annotations

import contextlib
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from penstock.cli.output import OutputClosed, say
from penstock.units import parsed_bytes, shown_time

if TYPE_CHECKING:
    from penstock.testing.local_cloud import LocalCloud
    from penstock.testing.recorder import Entry
    from penstock.testing.script import Step

DEFAULT_PORT = 4566  # where people who try AWS at home look first


def _size(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parsed_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("local-cloud")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    type=click.IntRange(0, 65535),
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--region", default="us-east-1", show_default=True, help="Region of the targets.")
@click.option(
    "--stream", "streams", multiple=True, metavar="NAME", help="Make this Kinesis stream."
)
@click.option("--bucket", "buckets", multiple=True, metavar="NAME", help="Make this S3 bucket.")
@click.option(
    "--channel", "channels", multiple=True, metavar="NAME", help="Make this IoT Analytics channel."
)
@click.option(
    "--script",
    metavar="FILE",
    help="Knobs to set and release at certain times after the start, in TOML.",
)
@click.option(
    "--keep",
    "kept_bytes_max",
    metavar="SIZE",
    callback=_size,
    help="How much each target remembers of what it took; 0 keeps counts only.  [default: all]",
)
@click.option("--quiet", is_flag=True, help="Do not print a line for each request.")
def local_cloud(
    host: str,
    port: int,
    region: str,
    streams: tuple[str, ...],
    buckets: tuple[str, ...],
    channels: tuple[str, ...],
    script: str | None,
    kept_bytes_max: int | None,
    quiet: bool,
) -> int:
    """Run a cloud for tests and demos until SIGINT or SIGTERM.

    Kinesis, S3, IoT SiteWise, IoT Analytics and HTTP sinks (/sink/NAME) on one address. Other
    processes set its knobs over HTTP:

    \b
      curl -d '{"kind": "throttle", "service": "kinesis", "times": 3}' \\
        http://127.0.0.1:4566/_local-cloud/knobs

    Needs the extra penstock[testing].
    """
    from penstock.testing.local_cloud import LocalCloud
    from penstock.testing.script import Timeline, load_script

    steps = load_script(script) if script else []
    cloud = LocalCloud(
        host=host,
        port=port,
        region=region,
        recorded_bytes_max=kept_bytes_max,
        on_request=None if quiet else _show_request,
    )
    with _ended_by_signal() as ended, cloud:
        for name in streams:
            cloud.kinesis.create_stream(name)
        for name in buckets:
            cloud.s3.create_bucket(name)
        for name in channels:
            cloud.iot_analytics.create_channel(name)
        _announce(cloud)
        with Timeline(steps, cloud.knobs, _show_step):
            ended.wait()
    return 0


@contextlib.contextmanager
def _ended_by_signal() -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets."""
    ended = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: ended.set()) for number in signals]
    try:
        yield ended
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _announce(cloud: LocalCloud) -> None:
    say(f"The local cloud listens on {cloud.endpoint}; programs that shall use it need:")
    for name, value in cloud.environment().items():
        say(f"export {name}={shlex.quote(value)}")
    say(f"HTTP sinks are below {cloud.endpoint}/sink/; Ctrl-C ends the cloud.")


def _show_request(entry: Entry) -> None:
    _show(entry.time_s, str(entry))


def _show_step(what: str, step: Step) -> None:
    kind = step.knob.__struct_config__.tag
    _show(time.time(), f"knob {kind} on {step.knob.service} {what}")


def _show(time_s: float, text: str) -> None:
    # Called by the threads that answer requests. When nobody reads any more, they still answer.
    with contextlib.suppress(OutputClosed):
        say(f"{shown_time(int(time_s * 1000))} {text}")
