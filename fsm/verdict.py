"""The answer to a question, with its evidence, as data; :mod:`fsm.report` puts it into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The answer is yes; a subclass has the witness, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """The answer is no; each kind of question has a subclass with the evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The question could not be answered; ``why`` says why not."""

    why: str


Verdict: TypeAlias = Holds | Fails | Unknown
"""The answer to every question; each kind of question narrows it."""
