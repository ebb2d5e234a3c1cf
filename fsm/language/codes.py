"""All rules for input files, by code.  Their texts are in ``codes.toml`` beside this module."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fsm.errors import Rule

_WRITTEN = tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8"))

RULES: Final[Mapping[str, Rule]] = MappingProxyType({code: Rule(**words) for code, words in _WRITTEN["rules"].items()})
"""Maps each code to its rule, in the order of the codes."""

FAMILIES: Final[Mapping[str, str]] = MappingProxyType(_WRITTEN["families"])
"""Maps each code prefix to the subject of its family of rules."""
