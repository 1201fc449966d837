"""`penstock pipeline`: the exports' process, by itself."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import click

from penstock import logs
from penstock.cli.child import child_options
from penstock.cli.output import CommandFailed, Status
from penstock.settings import SETTINGS

TOKEN_VARIABLE = "PENSTOCK_PIPELINE_TOKEN"


@click.command()
@click.option(
    "--server", required=True, metavar="HOST:PORT", help="The server whose exports are done."
)
@click.option("--master", default="", metavar="URL", help="Spark master.  [default: local[N]]")
@click.option(
    "--threads",
    default=5,
    type=click.IntRange(1, 1024),
    show_default=True,
    help="Tasks that Spark runs side by side.",
)
@click.option("--ui/--no-ui", default=False, help="Spark's own web page.")
@click.option("--jvm-args", default="", metavar="TEXT", help="More arguments for Java.")
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of Spark's own, such as spark.executor.memory=1g; as often as needed.",
)
@child_options
def pipeline(
    server: str,
    master: str,
    threads: int,
    ui: bool,
    jvm_args: str,
    conf: tuple[str, ...],
    log_level: str,
    log_format: str,
    follow_parent: bool,
) -> int:
    """Do the exports of a server with Spark.

    A server with exports starts this by itself; run it yourself to have it elsewhere, with
    `pipeline = "external"` and a `pipeline_token` in the server's settings. The same token is
    expected in the variable PENSTOCK_PIPELINE_TOKEN.
    """
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CommandFailed(f"--server {server} is not HOST:PORT.", Status.WRONG_USAGE)
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise CommandFailed(
            f"The variable {TOKEN_VARIABLE} is not set. Set it to the same text here and where the "
            f"server is started (its setting pipeline_token).",
            Status.WRONG_USAGE,
        )
    logs.configure(log_level, log_format=log_format)
    from penstock.pipeline.app import run
    from penstock.pipeline.task import Address

    return run(
        Address(host, int(port), token),
        master,
        slots=threads,
        ui=ui,
        jvm_args=jvm_args,
        conf=_pairs(conf),
        follow_parent=follow_parent,
    )


def _pairs(given: Sequence[str]) -> dict[str, str]:
    """Spark's settings by name."""
    for each in given:
        if not re.fullmatch(SETTINGS["spark_conf"].about.pattern, each):
            raise CommandFailed(
                f"--conf {each} is not KEY=VALUE with a key of Spark, such as "
                f"spark.executor.memory=1g.",
                Status.WRONG_USAGE,
            )
    return {key: value for key, _, value in (each.partition("=") for each in given)}
