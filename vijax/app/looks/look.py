"""What a look at some data says of the settings that suit them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Look(NamedTuple):
    """See above.

    Attributes:
      facts: lines for a reader: sizes, columns.
      settings: values by dotted key, as TOML has them.
      why: a line for each setting that needs one, by its key.
      without: settings of the configuration begun with that are not for these data.
    """

    facts: list[str]
    settings: dict[str, Any]
    why: Mapping[str, str] = MappingProxyType({})
    without: frozenset[str] = frozenset()
