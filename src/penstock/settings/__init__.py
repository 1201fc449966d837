"""What an operator can turn. Flags, variables, file keys, help and docs come from one declaration.

Sources     default, penstock.toml, environment, flags; each is stronger than the one before.
Always      every value remembers where it came from; a secret is never shown.
Refused     what is unknown, of a wrong type or out of range, and variables that contradict each
            other. All refusals come together, each with its source and its remedy.
Read in order   declaration, field, sources.
"""

from penstock.settings.declaration import SETTINGS, Loaded, Settings
from penstock.settings.sources import Source

__all__ = ["SETTINGS", "Loaded", "Settings", "Source"]
