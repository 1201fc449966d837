"""One field of the declaration: the names derived from it, and text <-> value."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from penstock.units import parsed_bytes, parsed_truth, parsed_whole, shown_bytes


class About(NamedTuple):
    """What a declaration says besides type and default."""

    text: str
    ge: int | None = None
    le: int | None = None
    is_bytes: bool = False
    choices: tuple[str, ...] = ()
    is_path: bool = False
    is_secret: bool = False
    may_be_empty: bool = False
    aws_variables: tuple[str, ...] = ()
    default_text: str = ""
    # A list of name=value, in a file also a table; and what each of them must look like.
    is_table: bool = False
    pattern: str = ""
    allowed_text: str = ""


class Setting(NamedTuple):
    """A field: key, kind (int, bool, str or tuple of str), what is said about it, default."""

    key: str
    kind: type
    about: About
    default: Any

    @property
    def variable(self) -> str:
        return f"PENSTOCK_{self.key.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """AWS's names first: they are what an existing set-up uses."""
        return (*self.about.aws_variables, self.variable)

    @property
    def flag(self) -> str:
        return f"--{self.key.replace('_', '-')}"

    @property
    def allowed(self) -> str:
        """What a value must be, as the end of a sentence."""
        about = self.about
        if about.allowed_text:
            return about.allowed_text
        if self.kind is int:
            what = "a size" if about.is_bytes else "a whole number"
            return f"{what} from {self.shown(about.ge)} to {self.shown(about.le)}"
        if self.kind is bool:
            return "true or false"
        if about.choices:
            return "one of " + ", ".join(about.choices)
        if self.kind is tuple:
            return "a list of folders" if about.is_path else "a list of texts, none of them empty"
        if about.is_path:
            return "a folder"
        return "text" if about.may_be_empty else "text that is not empty"

    @property
    def shown_default(self) -> str:
        return self.about.default_text or self.shown(self.default)

    def shown(self, value: Any) -> str:
        """A value as a person writes it; a secret only by its count."""
        if value is None:
            return "unset"
        if self.about.is_secret:
            return (
                "none" if not value else f"{len(value)} configured" if self.kind is tuple else "set"
            )
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value) or "none"
        if self.about.is_bytes:
            return shown_bytes(value)
        return str(value) if value != "" else "none"

    def from_text(self, text: str) -> Any:
        """The value of a variable or flag. ValueError if it is not one."""
        if self.kind is int:
            return self._within(parsed_bytes(text) if self.about.is_bytes else parsed_whole(text))
        if self.kind is bool:
            return parsed_truth(text)
        if self.kind is tuple:
            return self._texts([part.strip() for part in text.split(",")])
        return self._text(text)

    def from_value(self, value: object, folder: str = "") -> Any:
        """The value of a file's key, which has a type already. ValueError if it is not one.

        `folder` is what relative paths start from.
        """
        if self.kind is int and isinstance(value, str) and self.about.is_bytes:
            return self._within(parsed_bytes(value))
        if self.kind is int and isinstance(value, int) and not isinstance(value, bool):
            return self._within(value)
        if self.kind is bool and isinstance(value, bool):
            return value
        if self.about.is_table and isinstance(value, dict):
            return self._texts([f"{name}={each}" for name, each in _flat(value)])
        if self.kind is tuple and isinstance(value, list | tuple):
            return self._texts(value, folder)
        if self.kind is str and isinstance(value, str):
            return self._text(value, folder)
        raise ValueError(f"{type(value).__name__} is a wrong type")

    def _within(self, number: int) -> int:
        ge, le = self.about.ge, self.about.le
        if (ge is not None and number < ge) or (le is not None and number > le):
            raise ValueError(f"{number} is out of range")
        return number

    def _texts(self, parts: Sequence[object], folder: str = "") -> tuple[str, ...]:
        if not all(isinstance(part, str) for part in parts):
            raise ValueError("one of the list is not text")
        return tuple(self._text(str(part), folder) for part in parts)

    def _text(self, text: str, folder: str = "") -> str:
        if not text and not self.about.may_be_empty:
            raise ValueError("the text is empty")
        if "\0" in text:
            raise ValueError("the text holds a zero byte, which no path or address can")
        if self.about.pattern and not re.fullmatch(self.about.pattern, text):
            raise ValueError(f"{text} does not have the form that is asked for")
        if self.about.choices:
            by_lower_case = {choice.lower(): choice for choice in self.about.choices}
            if text.lower() not in by_lower_case:
                raise ValueError(f"{text} is not one of the choices")
            text = by_lower_case[text.lower()]
        if self.about.is_path:
            return os.path.abspath(os.path.join(folder, os.path.expanduser(text)))
        return text


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names and values of a table. TOML reads `spark.ui.port = 1` as tables within tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value).lower() if isinstance(value, bool) else str(value)
