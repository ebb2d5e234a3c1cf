"""Clauses, which are the sentences that cells and properties rest on."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["MUST", "SHOULD", "MAY", "observed"]

LEVELS: tuple[Level, ...] = ("observed", "MAY", "SHOULD", "MUST")
"""Levels of clauses, weakest first.  ``observed`` marks behaviour of an implementation that no contract promises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    name: str
    says: str
    level: Level
    source: str
    link: str = ""
