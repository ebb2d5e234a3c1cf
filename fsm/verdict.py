"""Verdicts, which answer a question and contain the evidence as data. :mod:`fsm.report` formats them as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The answer to the question is yes. Subclasses may contain a witness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """The answer to the question is no. Subclasses contain the evidence for each kind of question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The question could not be answered. ``why`` is the reason."""

    why: str


Verdict: TypeAlias = Holds | Fails | Unknown  # the answer to any question; subclasses of these types hold the evidence
