"""Where values come from, and what is said about those that cannot be used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.errors import SettingsError
from penstock.settings.field import Setting
from penstock.transforms.declaration import Transform, declared

CONFIG_VARIABLE = "PENSTOCK_CONFIG"
VARIABLE_PREFIXES = ("PENSTOCK_", "STREAM_MANAGER_")
WHERE_TO_LOOK = "`penstock config` and docs/settings.md list all of them"


class Source(NamedTuple):
    """Where a value came from: kind is default, file, variable or flag."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


class Collector:
    """Values and problems, gathered source by source, weakest first."""

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        self.values: dict[str, Any] = {}
        self.sources: dict[str, Source] = {}
        self.problems: list[str] = []
        self.transforms: list[Transform] = []
        self._settings = settings
        self._by_variable = {
            variable: setting for setting in settings.values() for variable in setting.variables
        }

    def take_defaults(self, defaults: Mapping[str, Any]) -> None:
        for key, value in defaults.items():
            self._put(key, value, Source("default"))

    def take_file(self, path: str | None, search: Sequence[str]) -> None:
        """The named file, which must exist, or the first of `search` that does."""
        for candidate in [path] if path else search:
            try:
                with open(candidate, "rb") as opened:
                    content = opened.read()
            except (FileNotFoundError, NotADirectoryError):
                if path:
                    self.problems.append(
                        f"there is no configuration file {path}. Correct --config or "
                        f"{CONFIG_VARIABLE}."
                    )
                continue
            except OSError as error:
                self.problems.append(
                    f"the configuration file {candidate} cannot be read: {error.strerror}. "
                    f"Give another with --config or {CONFIG_VARIABLE}."
                )
                return
            self._take_toml(content, os.path.abspath(candidate))
            return

    def take_environment(self, environ: Mapping[str, str]) -> None:
        known = [CONFIG_VARIABLE, *self._by_variable]
        self.problems += [
            unknown("variable", name, known)
            for name in sorted(environ)
            if name.startswith(VARIABLE_PREFIXES) and environ[name] and name not in known
        ]
        for setting in self._settings.values():
            try:
                found = from_environment(setting, environ)
            except SettingsError as error:
                self.problems.append(str(error))
                continue
            if found is not None:
                self._put(setting.key, *found)

    def take_flags(self, flags: Mapping[str, object]) -> None:
        for key, value in flags.items():
            setting = self._settings.get(key)
            if setting is None:
                self.problems.append(unknown("flag", key, self._settings))
            elif value is not None:
                self._take_flag(setting, value)

    def _take_flag(self, setting: Setting, value: object) -> None:
        source = Source("flag", setting.flag)
        try:
            is_text = isinstance(value, str)
            parsed = setting.from_text(str(value)) if is_text else setting.from_value(value)
        except ValueError:
            self.problems.append(refusal(setting, value, source))
            return
        self._put(setting.key, parsed, source)

    def _take_toml(self, content: bytes, path: str) -> None:
        import tomllib  # only who has a file pays for its parser

        try:
            found = tomllib.loads(content.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            self.problems.append(f"{path} is not valid TOML: {error}. Correct it.")
            return
        for key, value in found.items():
            if key in self._settings:
                self._take_key(self._settings[key], value, path)
            elif key == "transforms":
                self._take_transforms(value, path)
            elif key in self._by_variable:
                right = self._by_variable[key].key
                self.problems.append(f'"{key}" in {path} is a variable. Its key is "{right}".')
            else:
                what = "table" if isinstance(value, dict) else "key"
                self.problems.append(unknown(what, key, self._settings, f" in {path}"))

    def _take_key(self, setting: Setting, value: object, path: str) -> None:
        source = Source("file", path)
        try:
            parsed = setting.from_value(value, os.path.dirname(path))
        except ValueError:
            self.problems.append(refusal(setting, value, source))
            return
        self._put(setting.key, parsed, source)

    def _take_transforms(self, tables: object, path: str) -> None:
        self.transforms, problems = declared(tables, os.path.dirname(path))
        self.problems += [f"{path}: {problem}" for problem in problems]

    def _put(self, key: str, value: Any, source: Source) -> None:
        self.values[key] = value
        self.sources[key] = source


def from_environment(setting: Setting, environ: Mapping[str, str]) -> tuple[Any, Source] | None:
    """The value of a setting's variables; empty ones are unset. SettingsError if they disagree."""
    found: tuple[Any, Source] | None = None
    for name in setting.variables:
        text = environ.get(name, "")
        if not text:
            continue
        source = Source("variable", name)
        try:
            value = setting.from_text(text)
        except ValueError:
            raise SettingsError(refusal(setting, text, source)) from None
        if found is not None and found[0] != value:
            raise SettingsError(
                f"{found[1].name} and {name} both mean {setting.key} but differ: "
                f"{setting.shown(found[0])} and {setting.shown(value)}. Unset one of them."
            )
        found = found or (value, source)
    return found


def refusal(setting: Setting, value: object, source: Source) -> str:
    """The sentence about a value that cannot be used."""
    shown = "" if setting.about.is_secret else f" is {_shown_raw(value)}, which"
    hint = nearest(value, setting.about.choices) if isinstance(value, str) else ""
    return f"{setting.key} ({source}){shown} cannot be used. Give {setting.allowed}.{hint}"


def unknown(what: str, name: str, known: Iterable[str], at: str = "") -> str:
    """The sentence about a name that nobody declared."""
    return f'unknown {what} "{name}"{at}.{nearest(name, known)} {WHERE_TO_LOOK}.'


def nearest(name: str, known: Iterable[str]) -> str:
    """' Did you mean "port"?', or nothing."""
    import difflib  # only who made a mistake pays for it

    spelled = {choice.lower(): choice for choice in known}
    found = difflib.get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return f' Did you mean "{spelled[found[0]]}"?' if found else ""


def _shown_raw(value: object) -> str:
    """A refused value in the words of its source: TOML writes true, not True."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
