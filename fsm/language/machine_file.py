"""The vocabulary of the model files ``models/*.toml``.

These classes are the only definition of the words of the language. The parser validates against them, ``fsm schema``
prints them as JSON Schema, and :mod:`fsm.language.build` defines their meaning. This module does not check whether
the names that a model mentions exist.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, StringConstraints, Tag

from fsm.machine import LEVELS, Kind, Level, StateKind

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
"""A name. The names in shipped models consist of lower-case words joined by hyphens."""

Code: TypeAlias = Annotated[str, StringConstraints(pattern=r"^([A-Z][A-Z0-9_]*|error)$")]
"""An error reply in capitals, such as ``NOT_FOUND``, or the word ``error`` for any error reply."""

Reply: TypeAlias = Annotated[str, StringConstraints(pattern=r"^([A-Z][A-Z0-9_]*|error|ok)$")]

ReplyOrList: TypeAlias = Annotated[Reply | list[Reply], Field(union_mode="left_to_right")]

StateKey: TypeAlias = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*|\*)$")]
"""The name of a state, or ``*`` for every state that the event does not mention."""


def form_of(value: Any) -> str:  # noqa: ANN401  (any TOML value)
    """Return the form that *value* has in a union of forms, so that an error mentions only this form."""
    if isinstance(value, str):
        return "<text>"
    return "<list>" if isinstance(value, list | tuple) else "<table>"


BY_FORM: Final = Discriminator(form_of)

MOST_SECONDS: Final = 1_000_000_000  # 31 years; nanoseconds then fit into 64 bits

Text: TypeAlias = Annotated[str, Tag("<text>")]

Texts: TypeAlias = Annotated[Text | Annotated[list[str], Tag("<list>")], BY_FORM]

Definition: TypeAlias = Annotated[Text | Annotated[list[Name], Tag("<list>")], BY_FORM]


class Form(BaseModel):
    """Base of all forms.  Values must have the exact type, unknown words are errors, and instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WrittenOutcome(Form):
    """A possible outcome of an event in a state."""

    name: Name | None = Field(None, description="A name that distinguishes it from its alternatives.")
    about: str = Field("", description="The situation in which the environment chooses this outcome.")
    to: Name | None = Field(None, description="The next state.")
    stays: bool = Field(default=False, description="If true, the state does not change.")
    begins: Name | None = Field(None, description="The state in which the call is in progress.")
    reply: ReplyOrList = Field("ok", description="The reply, or a list of possible replies.")
    emits: list[str] = Field(default=[], description="The outputs, in order.")
    when: str | None = Field(
        None, description="The condition on the data; 'otherwise' means that no other outcome of the cell applies."
    )
    set: Mapping[Name, str | int | bool] = Field(default={}, description="The new values of variables.")
    chosen: bool = Field(
        default=False, description="If true, the environment chooses among several outcomes that apply."
    )
    within: int | None = Field(
        None, ge=1, le=MOST_SECONDS, description="Seconds after which the entity must have left the next state."
    )
    aliases: list[str] = Field(default=[], description="The labels of the outcome in drawings.")


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

    moves: Mapping[StateKey, Outcomes] = Field(
        default={},
        description="States in which the event has an effect, each with the next state, the reply and the outputs.",
    )
    ignores: list[StateKey] = Field(default=[], description="States in which the event replies ok and changes nothing.")
    refuses: Mapping[StateKey, Refusal] = Field(
        default={}, description="States in which the event replies an error and changes nothing."
    )
    cannot: list[StateKey] = Field(default=[], description="States in which the event does not happen.")
    silent: list[StateKey] = Field(
        default=[], description="States for which the specification says nothing about the event."
    )
    ends: Mapping[Name, Outcomes] = Field(default={}, description="How a call in progress ends in each state.")


_ONE_LEVEL: Final[dict[str, JsonValue]] = {
    "says": {"oneOf": [{"required": [level]} for level in LEVELS]},
    **{level: {"propertyNames": {"not": {"enum": [each for each in LEVELS if each != level]}}} for level in LEVELS},
}
"""Requires in JSON Schema that a table with a sentence has a level, and that no table has two levels."""

_SENTENCE: Final[dict[str, JsonValue]] = {level: ["says"] for level in LEVELS}
"""Requires in JSON Schema that a clause with a source also has a sentence."""


class Cited(Form):
    """A statement with its level and source: ``MUST = "handbook, section 2"``."""

    model_config = ConfigDict(json_schema_extra={"dependentSchemas": _ONE_LEVEL})

    MUST: str | None = Field(None, description="The document, with its version, that requires the behaviour.")
    SHOULD: str | None = Field(None, description="The document, with its version, that recommends the behaviour.")
    MAY: str | None = Field(None, description="The document, with its version, that permits the behaviour.")
    observed: str | None = Field(
        None, description="The place where the behaviour, which no contract promises, was observed."
    )


class WrittenClause(Cited):
    """A normative sentence: our wording, its level and its source."""

    says: str
    link: str = ""


class WrittenRest(Cited, Cells):
    """The cells of an event that rest on a clause.  With ``says``, the clause is also defined here."""

    model_config = ConfigDict(
        json_schema_extra={"dependentRequired": {**_SENTENCE, "link": ["says"]}, "dependentSchemas": _ONE_LEVEL}
    )

    says: str | None = Field(None, description="The clause in a sentence, in your own words, if it is defined here.")
    link: str = ""


class Happening(Cited):
    """Base of the events of a machine and the joint events of a system."""

    model_config = ConfigDict(
        json_schema_extra={
            "dependentRequired": {"says": ["clause"], "link": ["clause", "says"]},
            "dependentSchemas": {**_ONE_LEVEL, "clause": {"dependentRequired": _SENTENCE}},
        }
    )

    kind: Kind | None = Field(
        None,
        description="call: a client asks; signal: it happens; hidden: it happens and cannot be observed. "
        "Default: call if it has a name on the wire, otherwise signal.",
    )
    about: str = Field(description="The purpose of the event, in a sentence.")
    rpc: str | None = Field(None, description="The name of the event on the wire.")
    clause: Name | None = Field(None, description="The clause that justifies the event.")
    says: str | None = Field(None, description="The clause in a sentence, in your own words, if it is defined here.")
    link: str = Field("", description="With 'says': the address of the source of the clause.")

    @property
    def actual_kind(self) -> Kind:
        return self.kind or ("signal" if self.rpc is None else "call")


class WrittenDomain(Form):
    """The values of an argument: the integers in a range, true and false, or one of several words."""

    about: str = ""
    type: Literal["bool"] | None = Field(None, description="bool: true or false.")
    from_: int | None = Field(None, alias="from", description="The smallest integer.")
    to: int | None = Field(None, description="The largest integer.")
    values: list[Name] | None = Field(None, description="The words.")
    scope: bool = Field(
        default=False,
        description="If true, integers beyond the range also occur, but the checker does not search them.",
    )


class WrittenVariable(WrittenDomain):
    """A variable of the machine."""

    initial: int | bool | str | None = Field(
        None, description="The first value. Default: the smallest integer, false, or the first word."
    )
    saturates: bool = Field(
        default=False, description="If true, a value beyond the range becomes the nearest value in the range."
    )
    shown: bool = Field(default=False, description="If true, observers see the value.")


class WrittenEvent(Happening, Cells):
    """An event: its kind, its names, its arguments, its clauses and its cells."""

    arguments: Mapping[Name, WrittenDomain] = Field(default={}, description="The arguments, by name.")

    like: Name | None = Field(None, description="The event whose kind, clauses and other cells this event inherits.")
    aliases: list[str] = Field(default=[], description="Its other names in drawings.")
    clauses: Mapping[Name, WrittenRest] = Field(default={}, description="Cells that other clauses justify, by clause.")
    interrupts: bool = Field(default=False, description="If true, the event ends all calls in progress, like a crash.")


FieldValues: TypeAlias = Mapping[Name, list[int | str]]  # maps names of fields to some of their values


class WrittenFields(Form):
    """The fields of a status, by kind.  A time of 0 and an empty text are unset."""

    time: list[Name] = Field(default=[], description="Nanoseconds since 1970.")
    int: list[Name] = Field(default=[], description="Whole numbers.")
    text: list[Name] = Field(default=[], description="Words, or sentences.")


class WrittenDemand(Form):
    """A requirement on the fields of a status in some states."""

    in_: list[StateKey] = Field(alias="in", min_length=1, description="The states; * means all states.")
    set: list[Name] = Field(default=[], description="Times and texts that must be set.")
    unset: list[Name] = Field(default=[], description="Times and texts that must not be set.")
    not_before: Mapping[Name, Name] = Field(
        default={},
        alias="not-before",
        description="Times that must not be before another time, provided that both are set.",
    )
    slack: float = Field(
        0, ge=0, le=MOST_SECONDS, description="With 'not-before': the number of seconds by which a time may be early."
    )
    values: FieldValues = Field(default={}, description="Fields that must have one of these values.")
    iff: FieldValues = Field(default={}, description="Fields of which all or none must have one of these values.")
    keeps: list[Name] = Field(default=[], description="Fields that must not change once set, until an interruption.")
    when: FieldValues = Field(
        default={}, description="The clause applies only if each of these fields has one of these values."
    )
    unless: FieldValues = Field(default={}, description="The clause does not apply if a field has one of these values.")


class WrittenRequirement(Cited, WrittenDemand):
    """A clause on the fields of a status in some states."""

    says: str = Field(description="The clause in a sentence, in your own words.")
    link: str = ""


class WrittenExemption(Form):
    """A clause about fields, and the cases in which an implementation breaks it."""

    deviates: Name = Field(description="The clause.")
    about: str = Field(description="What the implementation does in this case.")
    when: FieldValues = Field(
        min_length=1, description="The exemption applies if each of these fields has one of these values."
    )
    since: str = ""
    until: str = ""
    link: str = ""


class WrittenOverride(Cells):
    """Cells of one event in a profile.  They replace the machine's cells or, if they deviate, extend these cells."""

    event: Name
    about: str = Field(description="What the profiled implementation does here.")
    deviates: Name | None = Field(
        None, description="The clause that the override breaks; absent if the override only narrows the choice."
    )
    since: str = ""
    until: str = ""
    link: str = ""


class WrittenProfile(Form):
    """The differences between a real implementation and the machine."""

    about: str
    extends: str | None = Field(
        None, description="The profile whose cells this profile inherits, unless it overrides them."
    )
    since: str = ""
    until: str = ""
    cell: Mapping[Name, WrittenOverride] = Field(default={}, description="The overridden cells, each with a name.")
    exempt: Mapping[Name, WrittenExemption] = Field(default={}, description="Broken clauses on fields, by name.")


class WrittenState(Form):
    """A state, and the value that it shows to an observer."""

    about: str
    shows: str | None = Field(
        None, description="The text that an outside observer reads. Default: the name of the state."
    )
    kind: StateKind | None = Field(
        None, description="The role of the state in the lifecycle. Only machine.initial has the kind initial."
    )
    aliases: list[str] = Field(default=[], description="Its other names in drawings.")
    in_: Name | None = Field(None, alias="in", description="The state of which it is a substate.")
    initial: Name | None = Field(None, description="The substate that is entered first, if the state has substates.")
    history: bool = Field(default=False, description="If true, the machine remembers which substate was left last.")


class WrittenTimer(Form):
    """A timer, which runs in some states and fires an event when its time is over."""

    about: str = ""
    in_: list[StateKey] = Field(
        alias="in", min_length=1, description="The states in which it runs; * means all states."
    )
    event: Name = Field(description="The event that happens when the time is over.")
    after: str = Field(description="The time, such as '30 min', '1.5 s' or 'PT30M'.")
    tolerance: str = Field(description="How much earlier or later the event may happen.")
    restarts: list[Name] = Field(default=[], description="Events that restart the timer, unless they reply an error.")


class WrittenOmission(Form):
    """The parts of an event that drawings leave out."""

    states: list[StateKey] = Field(
        default=[], description="States in which drawings omit the event; * means all states."
    )
    outcomes: list[Name] = Field(default=[], description="Outcomes that drawings omit.")


class WrittenDrawing(Form):
    """The parts that drawings of the machine leave out.  Drawings must show everything else."""

    omits: Mapping[Name, WrittenOmission] = Field(default={}, description="The parts that drawings omit, by event.")


class Titled(Form):
    """Base of the ``machine`` table of a model and of the ``system`` table of a system."""

    name: Name
    title: str
    about: str
    source: str = Field(description="The source of the facts: a document and its version.")


class Header(Titled):
    """The machine as a whole."""

    initial: Name
    level: Level = Field("MUST", description="Level of cells whose event has neither a clause nor a level.")
    entity: Name | None = Field(
        None, description="The kind of thing that has this lifecycle. Default: the name of the machine."
    )
    indefinite: list[Code] = Field(default=[], description="Errors that leave open whether the call took effect.")


class Written(Form):
    """A whole model file."""

    machine: Header
    states: Mapping[Name, WrittenState]
    define: Mapping[Name, list[Name]] = Field(default={}, description="Sets of states, by name.")
    data: Mapping[Name, WrittenVariable] = Field(default={}, description="The variables of an entity, by name.")
    event: Mapping[Name, WrittenEvent]
    timer: Mapping[Name, WrittenTimer] = Field(default={}, description="The timers of an entity, by name.")
    clause: Mapping[Name, WrittenClause] = {}
    fields: WrittenFields = WrittenFields()
    requires: Mapping[Name, WrittenRequirement] = Field(default={}, description="Clauses on fields, by name.")
    profile: Mapping[str, WrittenProfile] = {}
    drawing: WrittenDrawing | None = None
