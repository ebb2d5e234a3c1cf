"""Every rule that an input is held to, by its code.

Codes are stable and are never used again for another rule.  FSM0xx is the
form of a model file (:mod:`fsm.language.read`), FSM1xx its meaning
(:mod:`fsm.language.build`), FSM2xx what is judged by it, FSM3xx what is claimed of it,
FSM4xx drawings of it, FSM5xx what it is imported from, FSM6xx what is tested by it, FSM7xx systems.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from fsm.language.codes.inputs import DRAWINGS, IMPORTS, RECORDINGS, UNDER_TEST
from fsm.language.codes.models import COMPOSITION, FORM, MEANING, PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsm.errors import Rule

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {**FORM, **MEANING, **RECORDINGS, **PROPERTIES, **DRAWINGS, **IMPORTS, **UNDER_TEST, **COMPOSITION}
)
"""In the order of the codes."""
