"""`penstock serve`: the server in the foreground."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import click

from penstock import logs
from penstock.cli.output import OutputClosed, say
from penstock.settings import SETTINGS, Settings
from penstock.settings.field import Setting

log = logging.getLogger("penstock.server")

METAVARS = {int: "NUMBER", str: "TEXT", tuple: "TEXT,..."}
READY_TEXT = "Stream Manager reporting the state: RUNNING"  # what AWS's own tests wait for


def setting_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Every setting as a flag. Values stay text: Settings.load() checks all sources in one way."""
    for setting in reversed(SETTINGS.values()):
        function = _option(setting)(function)
    return function


def _option(setting: Setting) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    text = f"{setting.about.text}  [default: {setting.shown_default}]"
    if setting.kind is bool:
        name = f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"
        return click.option(name, setting.key, default=None, help=text)
    return click.option(
        setting.flag,
        setting.key,
        default=None,
        multiple=setting.kind is tuple,
        metavar=_metavar(setting),
        help=text,
    )


def _metavar(setting: Setting) -> str:
    about = setting.about
    if about.choices:
        return "|".join(about.choices)
    if about.is_path:
        return "FOLDER,..." if setting.kind is tuple else "FOLDER"
    return "SIZE" if about.is_bytes else METAVARS[setting.kind]


@click.command()
@click.option("--config", metavar="FILE", help="Settings file, instead of ./penstock.toml.")
@setting_options
def serve(config: str | None, **flags: Any) -> int:
    """Run the server until SIGINT or SIGTERM.

    Settings come from flags, environment variables, penstock.toml (here or in /etc/penstock) and
    defaults, in this order. `penstock config` shows what is in force, docs/settings.md explains.
    Sizes may have a unit: 64MiB.
    """
    loaded = Settings.load({key: _flag(value) for key, value in flags.items()}, os.environ, config)
    settings = loaded.settings
    logs.configure(settings.log_level, log_format=settings.log_format)
    for warning in settings.warnings():
        log.warning(warning)
    from penstock.server.app import run

    def on_ready(host: str, port: int) -> None:
        announce(host, port, settings.data_dir)

    return run(settings, on_ready, announce_console)


def _flag(value: Any) -> Any:
    """A flag that can be repeated arrives as a tuple; empty means that it was not given."""
    return (",".join(value) or None) if isinstance(value, tuple) else value


def announce(host: str, port: int, data_dir: str) -> None:
    """Tell people and programs that clients can come."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        say(f"Penstock listens on {address} (data in {data_dir})")
    except OutputClosed:
        log.info("Penstock listens on %s; standard output is closed.", address)
    log.info(READY_TEXT)


def announce_console(url: str) -> None:
    """The same for browsers, whenever the console has been started."""
    try:
        say(f"Console on {url}")
    except OutputClosed:
        log.info("Console on %s; standard output is closed.", url)
