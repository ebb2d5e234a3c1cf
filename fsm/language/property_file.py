"""The vocabulary of ``properties/*.toml``: a property file as its author wrote it (see :mod:`.machine_file`)."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import Field, Tag

from fsm.language.machine_file import BY_FORM, Cited, Definition, Form, Name, StateKey, Texts, WrittenDemand
from fsm.machine.property.claims import NO_PROFILE

Conditions: TypeAlias = Texts  # a condition, or several with the same claim. ``then`` puts conditions in order


class WrittenCounts(Form):
    """The size of the reachable part.  If it changes, so has the meaning of the model."""

    states: int = Field(ge=1, description="Reachable states.")
    transitions: int = Field(ge=0, description="Possible outcomes in these states.")
    depth: int = Field(ge=0, description="Steps to the most distant state.")


class WrittenFailure(Form):
    """A property that is known not to hold."""

    under: Texts = Field(NO_PROFILE, description="Profiles under which it fails; 'none': without one, '*': always.")
    alone: bool = Field(default=False, description="If true, it does not fail under profiles that extend these.")
    about: str = Field(description="What is wrong there.")
    length: int = Field(ge=0, description="Number of steps of the shortest counterexample.")
    link: str = Field("", description="Where it is discussed.")


Failures: TypeAlias = Annotated[
    Annotated[WrittenFailure, Tag("<table>")] | Annotated[list[WrittenFailure], Tag("<list>")], BY_FORM
]
"""Known failures of a property: one, or several under different profiles."""


class WrittenProperty(Cited):
    """A property: a sentence, its source, and exactly one claim."""

    says: str = Field(description="The property in a sentence, in your own words.")
    link: str = ""
    catches: list[str] = Field(default=[], description="Mutants of the machine that break it.")
    fails: Failures = Field(default=[], description="Where it is known to fail, and how.")

    for_: str | None = Field(None, alias="for", description="The part of a system whose every copy is meant.")
    idempotent: Name | None = Field(None, description="A call that changes nothing if it is repeated immediately.")
    once: str | None = Field(None, description="With idempotent: what must hold after the first call.")
    always: Conditions | None = Field(None, description="What holds at every instant.")
    when: str | None = Field(None, description="With always: the instants that are meant.")
    never: Conditions | None = Field(None, description="What holds at no instant, or happens in no run in that order.")
    until: str | None = Field(None, description="With never: forget everything before this.")
    reachable: Conditions | None = Field(None, description="What happens in some run.")
    from_each: list[StateKey] = Field(
        default=[], alias="from-each", description="With reachable: the states of its first step; '*' means all."
    )
    leads_to: str | None = Field(None, alias="leads-to", description="What happens sooner or later.")
    from_: str | None = Field(None, alias="from", description="With leads-to: the instant after which it must happen.")
    fair: list[str] = Field(default=[], description="Events that happen if they stay possible.")
    strongly_fair: list[str] = Field(
        default=[], alias="strongly-fair", description="Events that happen if they become possible again and again."
    )
    follows: str | None = Field(None, description="The machine whose events explain the outputs.")
    refines: str | None = Field(None, description="The machine that allows all observable behaviour of this one.")
    overlap: int = Field(1, ge=0, le=3, description="With refines: maximum number of calls in progress.")
    matches_diagram: str | None = Field(None, alias="matches-diagram", description="The file that has the drawing.")
    requires: WrittenDemand | None = Field(None, description="A requirement on the fields of a status.")


class Stated(Form):
    """A whole property file."""

    machine: str = Field(description="The model: a name, or a path relative to this file.")
    define: Mapping[Name, Definition] = Field(default={}, description="Conditions and sets of states, by name.")
    expect: WrittenCounts | None = None
    under: Mapping[str, WrittenCounts] = Field(default={}, description="The expected size under each profile.")
    property: Mapping[Name, WrittenProperty]
