"""Verdicts, which answer a question and contain the evidence as data. :mod:`fsm.report` formats them as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The answer is yes. A subclass may have a witness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """The answer is no. Each kind of question has a subclass with the evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The question could not be answered, and ``why``."""

    why: str


Verdict: TypeAlias = Holds | Fails | Unknown
"""The answer to any question. Each kind of question has narrower types."""
