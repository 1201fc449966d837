"""`penstock config`: what is in force and where it came from; and the settings page of the docs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from penstock.cli.output import Column, complain, show_json, show_table, write
from penstock.settings import SETTINGS, Loaded, Settings
from penstock.settings.field import Setting

COLUMNS = (Column("Key"), Column("Value"), Column("Source"))


@click.command()
@click.option("--config", "path", metavar="FILE", help="Settings file, as serve would get it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--docs", is_flag=True, hidden=True, help="Print the settings page of the docs.")
def config(path: str | None, as_json: bool, docs: bool) -> None:
    """Show every setting, its value and its source."""
    if docs:
        write(settings_page().encode())
        return
    loaded = Settings.load({}, os.environ, path)
    for warning in loaded.settings.warnings():
        complain(warning)
    if as_json:
        show_json({key: _as_json(setting, loaded) for key, setting in SETTINGS.items()})
    else:
        show_table(COLUMNS, [_row(setting, loaded) for setting in SETTINGS.values()])


def _row(setting: Setting, loaded: Loaded) -> list[str]:
    value = getattr(loaded.settings, setting.key)
    return [setting.key, setting.shown(value), str(loaded.sources[setting.key])]


def _as_json(setting: Setting, loaded: Loaded) -> dict[str, object]:
    """Value and source; of a secret only how many there are."""
    value = getattr(loaded.settings, setting.key)
    shown = {"count": len(value)} if setting.about.is_secret else {"value": value}
    return {**shown, "source": loaded.sources[setting.key]._asdict()}


# --- docs/settings.md ---------------------------------------------------------------------------

INTRODUCTION = """\
# Settings

*Made by `penstock config --docs` from the declaration in `src/penstock/settings`; a test fails when
this page is out of date.*

Each setting can be given in four places. Each place is stronger than the one before it:

1. its default,
2. a key in `penstock.toml`: the file named by `--config` or `PENSTOCK_CONFIG`, otherwise
   `./penstock.toml`, otherwise `/etc/penstock/penstock.toml`,
3. an environment variable: `PENSTOCK_` and the key in capitals, or AWS's own name where there is
   one. An empty variable counts as unset. Two names of one setting must not contradict each other,
4. a flag of `penstock serve`.

`penstock config` shows what is in force and where each value came from. Unknown keys and unknown
variables that begin with `PENSTOCK_` or `STREAM_MANAGER_` are refused, as are values of a wrong
type or out of range; all problems are reported together, and the server does not start.

Sizes are a number of bytes or text with a unit (`64MiB`, `64MB`). In variables and flags, lists are
separated by commas; in the file they are TOML lists. Relative folders start from the file's own
folder when they stand in the file, from the current folder otherwise.

**Authentication.** With no token configured, clients of the same machine need none. Configured
tokens, or `authenticate_client = true`, turn authentication on. A `host` that other machines can
reach demands it: the server does not start without a token there. The token travels unencrypted.

Example of a `penstock.toml`:

```toml
port = 8088
data_dir = "/var/lib/penstock"
tokens = ["change-me"]
frame_bytes_max = "16MiB"
log_level = "INFO"
```
"""


def settings_page() -> str:
    """docs/settings.md, complete."""
    sections = ["\n".join(_section(setting)) for setting in SETTINGS.values()]
    return "\n".join([INTRODUCTION, *sections])


def _section(setting: Setting) -> Iterator[str]:
    flag = f"`{setting.flag}`"
    if setting.kind is bool:
        flag += f" or `--no-{setting.flag.removeprefix('--')}`"
    yield f"## {setting.key}\n"
    yield f"{setting.about.text}\n"
    yield f"* Default: `{setting.shown_default}`"
    yield f"* Allowed: {setting.allowed}"
    yield "* Variables: " + ", ".join(f"`{name}`" for name in setting.variables)
    yield f"* Flag: {flag}"
    yield ""
