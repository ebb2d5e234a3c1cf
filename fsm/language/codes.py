"""The rules for input files and their codes.

The texts of the rules are in ``codes.toml`` next to this module, or in the file of a domain.
"""

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from fsm.entry_points import DOMAINS, Domain, foreign_objects, own_objects, warn_left_out
from fsm.errors import Rule


def _file(package: str, name: str) -> dict[str, Any]:
    return tomllib.loads((files(package) / name).read_text(encoding="utf-8"))


def _rules(domain: Domain) -> dict[str, Rule]:
    package, _, name = domain.codes.partition(":")
    return {code: Rule(**words) for code, words in _file(package, name)["rules"].items()} if package else {}


def _foreign_rules() -> Iterator[tuple[str, Rule]]:
    for name, domain in foreign_objects(DOMAINS, Domain):
        try:
            yield from _rules(domain).items()
        except Exception as error:  # noqa: BLE001  (the file of another package)
            warn_left_out(DOMAINS, name, error)


_WRITTEN = _file("fsm.language", "codes.toml")
_OWN = {code: rule for _, domain in own_objects(DOMAINS, Domain) for code, rule in _rules(domain).items()}
_RULES = {code: Rule(**words) for code, words in _WRITTEN["rules"].items()} | _OWN | dict(_foreign_rules())

RULES: Final[Mapping[str, Rule]] = MappingProxyType(dict(sorted(_RULES.items())))

FAMILIES: Final[Mapping[str, str]] = MappingProxyType(_WRITTEN["families"])
