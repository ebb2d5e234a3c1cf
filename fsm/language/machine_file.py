"""The vocabulary of ``models/*.toml``: a model as its author wrote it.

These classes are the only definition of the language's words.  The parser validates against them, ``fsm schema`` prints
them as JSON Schema, and :mod:`fsm.language.build` gives them meaning.  Nothing here checks whether a mentioned name
exists.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, StringConstraints, Tag

from fsm.machine import LEVELS, Kind, Level, StateKind

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
"""A name of letters, digits, ``_``, ``.`` and ``-``.  Shipped models use lower-case words joined by hyphens."""

Code: TypeAlias = Annotated[str, StringConstraints(pattern=r"^([A-Z][A-Z0-9_]*|error)$")]
"""An error reply in capitals, such as ``NOT_FOUND``, or ``error`` for any of them."""

Reply: TypeAlias = Annotated[str, StringConstraints(pattern=r"^([A-Z][A-Z0-9_]*|error|ok)$")]
"""``ok``, an error reply in capitals, or ``error`` for any error."""

StateKey: TypeAlias = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*|\*)$")]
"""A state's name, or ``*`` for every state that the event does not mention."""


def form_of(value: Any) -> str:  # noqa: ANN401  (whatever TOML holds)
    """Return the union form of *value*, chosen by its TOML type so that errors mention only one form."""
    match value:
        case str():
            return "<text>"
        case list() | tuple():
            return "<list>"
        case _:
            return "<table>"


BY_FORM: Final = Discriminator(form_of)

Text: TypeAlias = Annotated[str, Tag("<text>")]

Texts: TypeAlias = Annotated[Text | Annotated[list[str], Tag("<list>")], BY_FORM]

Definition: TypeAlias = Annotated[Text | Annotated[list[Name], Tag("<list>")], BY_FORM]
"""The definition of a name: a condition, or a set of states."""


class Form(BaseModel):
    """Base of all forms.  Strict, closed and frozen: an unknown word is an error, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WrittenOutcome(Form):
    """One way in which an event may end in a state."""

    name: Name | None = Field(None, description="What distinguishes it from its alternatives.")
    about: str = Field("", description="When the environment chooses it.")
    to: Name | None = Field(None, description="The state it leads to.")
    stays: bool = Field(default=False, description="It leads nowhere else: the state stays as it is.")
    begins: Name | None = Field(None, description="The state others meet while the call is in progress.")
    reply: Annotated[Reply | list[Reply], Field(union_mode="left_to_right")] = Field(
        "ok", description="The reply, or the replies, that may be given."
    )
    emits: list[str] = Field(default=[], description="Outputs, in order.")
    within: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Seconds within which the entity leaves the state that it leads to."
    )
    aliases: list[str] = Field(default=[], description="Labels that drawings have for it.")


Outcomes: TypeAlias = Annotated[
    Annotated[Name, Tag("<text>")]
    | Annotated[WrittenOutcome, Tag("<table>")]
    | Annotated[list[WrittenOutcome], Tag("<list>")],
    BY_FORM,
]
"""A target state, one outcome, or a list of named alternatives."""

Refusal: TypeAlias = Annotated[Annotated[Code, Tag("<text>")] | Annotated[list[Code], Tag("<list>")], BY_FORM]


class Cells(Form):
    """Cells of an event by state, in six groups."""

    moves: Mapping[StateKey, Outcomes] = Field(default={}, description="It acts: next state, reply, outputs.")
    ignores: list[StateKey] = Field(default=[], description="It replies ok, and nothing changes.")
    refuses: Mapping[StateKey, Refusal] = Field(default={}, description="It replies an error, and nothing changes.")
    cannot: list[StateKey] = Field(default=[], description="It does not happen here.")
    silent: list[StateKey] = Field(default=[], description="The specification says nothing.")
    ends: Mapping[Name, Outcomes] = Field(
        default={}, description="How a call that has begun ends, for each state it may be in meanwhile."
    )


_ONE_LEVEL: Final[dict[str, JsonValue]] = {
    "says": {"oneOf": [{"required": [level]} for level in LEVELS]},
    **{level: {"propertyNames": {"not": {"enum": [each for each in LEVELS if each != level]}}} for level in LEVELS},
}
"""JSON Schema rule that a sentence has a level, and nothing has two levels."""

_SENTENCE: Final[dict[str, JsonValue]] = {level: ["says"] for level in LEVELS}
"""JSON Schema rule that a clause with a source also has a sentence."""


class Cited(Form):
    """A statement with its level and source: ``MUST = "handbook, section 2"``."""

    model_config = ConfigDict(json_schema_extra={"dependentSchemas": _ONE_LEVEL})

    MUST: str | None = Field(None, description="It is required; by which document and version.")
    SHOULD: str | None = Field(None, description="It is recommended; by which document and version.")
    MAY: str | None = Field(None, description="It is permitted; by which document and version.")
    observed: str | None = Field(None, description="It is a habit that no contract promises; where it is seen.")


class WrittenClause(Cited):
    """One normative sentence: its wording (ours), its level and its source."""

    says: str
    link: str = ""


class WrittenRest(Cited, Cells):
    """The cells of an event that rest on a clause, which is defined here if its sentence is given."""

    model_config = ConfigDict(
        json_schema_extra={"dependentRequired": {**_SENTENCE, "link": ["says"]}, "dependentSchemas": _ONE_LEVEL}
    )

    says: str | None = Field(None, description="The clause in a sentence, in your own words, if it is defined here.")
    link: str = ""


class Happening(Cited):
    """Common part of an event of a machine and a joint event of a system."""

    model_config = ConfigDict(
        json_schema_extra={
            "dependentRequired": {"says": ["clause"], "link": ["clause", "says"]},
            "dependentSchemas": {**_ONE_LEVEL, "clause": {"dependentRequired": _SENTENCE}},
        }
    )

    kind: Kind | None = Field(
        None,
        description="call: a client asks; signal: it happens; hidden: it happens and cannot be observed. "
        "If absent: call for what has a name on the wire, signal for all else.",
    )
    about: str = Field(description="What it is for, in a sentence.")
    rpc: str | None = Field(None, description="Its name on the wire.")
    clause: Name | None = Field(None, description="The clause that it rests on.")
    says: str | None = Field(None, description="The clause in a sentence, in your own words, if it is defined here.")
    link: str = Field("", description="With says: the address of its source.")

    @property
    def meant_kind(self) -> Kind:
        """The kind of the event, written or implied."""
        return self.kind or ("signal" if self.rpc is None else "call")


class WrittenEvent(Happening, Cells):
    """One event: its kind, its names, its clauses, and its cells."""

    like: Name | None = Field(None, description="The event whose kind, clauses and cells it has but for its own cells.")
    aliases: list[str] = Field(default=[], description="Other names that drawings have for it.")
    clauses: Mapping[Name, WrittenRest] = Field(default={}, description="By clause, the cells that rest on it instead.")
    interrupts: bool = Field(default=False, description="Calls in progress are lost with it, as in a crash.")


FieldValues: TypeAlias = Mapping[Name, list[int | str]]
"""Maps field names to a subset of their values."""


class WrittenFields(Form):
    """The fields of a status, by kind; a time that is 0 and a text that is empty are unset."""

    time: list[Name] = Field(default=[], description="Nanoseconds since 1970.")
    int: list[Name] = Field(default=[], description="Whole numbers.")
    text: list[Name] = Field(default=[], description="Words, or sentences.")


class WrittenDemand(Form):
    """What is required of the fields that are shown with some states."""

    in_: list[StateKey] = Field(alias="in", min_length=1, description="The states; * is every one.")
    set: list[Name] = Field(default=[], description="Times and texts that are set.")
    unset: list[Name] = Field(default=[], description="Times and texts that are not set.")
    not_before: Mapping[Name, Name] = Field(
        default={}, alias="not-before", description="Times that are not before another, where both are set."
    )
    slack: float = Field(0, ge=0, description="With not-before: seconds by which they may be.")
    values: FieldValues = Field(default={}, description="Fields that have one of these values.")
    iff: FieldValues = Field(default={}, description="Fields that have one of these values all, or none has.")
    keeps: list[Name] = Field(
        default=[],
        description="Fields that stay, once set, as they were with one of the states, until an interruption.",
    )
    when: FieldValues = Field(default={}, description="Only where each of these fields has one of its values.")
    unless: FieldValues = Field(default={}, description="Not where one of these fields has one of its values.")


class WrittenRequirement(Cited, WrittenDemand):
    """A clause on the fields that are shown with some states."""

    says: str = Field(description="The clause in a sentence, in your own words.")
    link: str = ""


class WrittenExemption(Form):
    """How an implementation breaks a clause on fields."""

    deviates: Name = Field(description="The clause.")
    about: str = Field(description="What the implementation does there.")
    when: FieldValues = Field(min_length=1, description="Where each of these fields has one of its values.")
    since: str = ""
    until: str = ""
    link: str = ""


class WrittenOverride(Cells):
    """Cells of one event in a profile: they replace those of the machine or, deviating, are added to them."""

    event: Name
    about: str = Field(description="What the profiled implementation does here.")
    deviates: Name | None = Field(None, description="The clause it breaks; none if it only narrows the choice.")
    since: str = ""
    until: str = ""
    link: str = ""


class WrittenProfile(Form):
    """What a real implementation does otherwise."""

    about: str
    extends: str | None = Field(None, description="The profile whose cells it has but for those that it overrides.")
    since: str = ""
    until: str = ""
    cell: Mapping[Name, WrittenOverride] = Field(default={}, description="The overridden cells, each with a name.")
    exempt: Mapping[Name, WrittenExemption] = Field(
        default={}, description="Broken clauses on fields, each with a name."
    )


class WrittenState(Form):
    """One state and what an observer reads in it."""

    about: str
    shows: str | None = Field(None, description="What an outside observer reads; the state's name if absent.")
    kind: StateKind | None = Field(
        None, description="What the state is in the lifecycle; the state of machine.initial is initial, and no other."
    )
    aliases: list[str] = Field(default=[], description="Other names that drawings have for it.")


class WrittenOmission(Form):
    """What drawings leave out of one event."""

    states: list[StateKey] = Field(default=[], description="From these they do not draw it; * from none at all.")
    outcomes: list[Name] = Field(default=[], description="These ways for it to end they do not draw.")


class WrittenDrawing(Form):
    """What drawings of the machine leave out; all else they are to have."""

    omits: Mapping[Name, WrittenOmission] = Field(default={}, description="By event.")


class Header(Form):
    """The machine as a whole."""

    name: Name
    title: str
    about: str
    source: str = Field(description="Where the facts come from: document and version.")
    initial: Name
    level: Level = Field("MUST", description="Level of the cells whose event has neither clause nor level.")
    entity: Name | None = Field(None, description="What it is the life of; the machine's name if absent.")
    indefinite: list[Code] = Field(
        default=[], description="Error replies after which the caller cannot know whether the call acted."
    )


class Written(Form):
    """A whole model file."""

    machine: Header
    states: Mapping[Name, WrittenState]
    define: Mapping[Name, list[Name]] = Field(
        default={}, description="Sets of states by name; a name stands for each state of the set."
    )
    event: Mapping[Name, WrittenEvent]
    clause: Mapping[Name, WrittenClause] = {}
    fields: WrittenFields = WrittenFields()
    requires: Mapping[Name, WrittenRequirement] = Field(default={}, description="Clauses on fields, by name.")
    profile: Mapping[str, WrittenProfile] = {}
    drawing: WrittenDrawing | None = None
