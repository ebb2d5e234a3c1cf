"""Every rule for inputs, by its code.

Codes are stable, and the code of a rule that is dropped is never used again.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fsm.errors import Rule
from fsm.language.codes.input_rules import DRAWINGS, IMPORTS, RECORDINGS, UNDER_TEST
from fsm.language.codes.model_rules import FORM, MEANING
from fsm.language.codes.property_rules import PROPERTIES
from fsm.language.codes.system_rules import COMPOSITION

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {**FORM, **MEANING, **RECORDINGS, **PROPERTIES, **DRAWINGS, **IMPORTS, **UNDER_TEST, **COMPOSITION}
)
"""In the order of the codes."""

FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "FSM0": "The form of model, system and property files",
        "FSM1": "The meaning of models",
        "FSM2": "Recordings",
        "FSM3": "Properties",
        "FSM4": "Drawings",
        "FSM5": "Files of other tools",
        "FSM6": "What is tested",
        "FSM7": "Systems",
    }
)
"""What the rules of a family are about, by how their codes begin."""
