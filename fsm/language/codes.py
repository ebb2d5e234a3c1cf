"""All rules for input files, by code.  Their texts are in ``codes.toml`` beside this module, or in a domain's file."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fsm import entry_points
from fsm.errors import Rule

_WRITTEN = tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8"))

_RULES = _WRITTEN["rules"]
for _package, _, _name in (each.codes.partition(":") for each in entry_points.domains() if each.codes):
    _RULES |= tomllib.loads((files(_package) / _name).read_text(encoding="utf-8"))["rules"]

RULES: Final[Mapping[str, Rule]] = MappingProxyType({code: Rule(**_RULES[code]) for code in sorted(_RULES)})
"""Maps each code to its rule, in the order of the codes."""

FAMILIES: Final[Mapping[str, str]] = MappingProxyType(_WRITTEN["families"])
"""Maps each code prefix to the subject of its family of rules."""
