"""Every rule for inputs, by its code; ``codes.toml`` beside this module has their words."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fsm.errors import Rule

_WRITTEN = tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8"))

RULES: Final[Mapping[str, Rule]] = MappingProxyType({code: Rule(**words) for code, words in _WRITTEN["rules"].items()})
"""In the order of the codes."""

FAMILIES: Final[Mapping[str, str]] = MappingProxyType(_WRITTEN["families"])
"""What the rules of a family are about, by how their codes begin."""
