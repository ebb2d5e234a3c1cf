"""The vocabulary of ``properties/*.toml``: a property file as its author wrote it.

As in :mod:`fsm.language.machine_file`, these classes define the words once, for the parser, for ``fsm schema --of
properties`` and for hints.  :mod:`fsm.language.build` decides what a condition means and whether the names in it exist.
"""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import Field, Tag

from fsm.language.machine_file import BY_FORM, Cited, Definition, Form, Name, StateKey, Texts, WrittenDemand
from fsm.machine.property.claims import NO_PROFILE

Conditions: TypeAlias = Texts
"""One condition, or several about which the same is claimed.  ``then`` puts conditions in order."""


class WrittenCounts(Form):
    """The size of what can be reached: a change here is a change of meaning."""

    states: int = Field(ge=1, description="States that can be reached.")
    transitions: int = Field(ge=0, description="Outcomes that can be met in them.")
    depth: int = Field(ge=0, description="Steps to the state that is farthest away.")


class WrittenFailure(Form):
    """A property that is known not to hold."""

    under: Texts = Field(
        NO_PROFILE, description="The profiles under which it fails; 'none' is without one, '*' everywhere."
    )
    alone: bool = Field(default=False, description="Not under the profiles that extend those.")
    about: str = Field(description="What is wrong there.")
    length: int = Field(ge=0, description="Steps of its shortest counterexample.")
    link: str = Field("", description="Where it is discussed.")


Failures: TypeAlias = Annotated[
    Annotated[WrittenFailure, Tag("<table>")] | Annotated[list[WrittenFailure], Tag("<list>")], BY_FORM
]
"""Known failures of a property: one, or several under different profiles."""


class WrittenProperty(Cited):
    """One property: what it says, where it comes from, and exactly one claim."""

    says: str = Field(description="The property in a sentence, in your own words.")
    link: str = ""
    catches: list[str] = Field(default=[], description="Mutants of the machine that break it.")
    fails: Failures = Field(default=[], description="Where it is known to fail, and how.")

    for_: str | None = Field(
        None, alias="for", description="Of a system: the part of which each copy is meant, with what belongs to it."
    )
    idempotent: Name | None = Field(None, description="A call that, repeated at once, replies ok and changes nothing.")
    once: str | None = Field(None, description="With idempotent: only where this holds after the first call.")
    always: Conditions | None = Field(None, description="What holds at every instant.")
    when: str | None = Field(None, description="With always: only at instants of which this holds.")
    never: Conditions | None = Field(None, description="What holds at no instant, or happens in no run in that order.")
    until: str | None = Field(None, description="With never: what ends the memory of all before it.")
    reachable: Conditions | None = Field(None, description="What some run does.")
    from_each: list[StateKey] = Field(
        default=[],
        alias="from-each",
        description="With reachable: in a step from each of these states; '*' is every one.",
    )
    leads_to: str | None = Field(None, alias="leads-to", description="What comes about sooner or later.")
    from_: str | None = Field(None, alias="from", description="With leads-to: the instant it is counted from.")
    fair: list[str] = Field(default=[], description="Events that do not wait forever while they can happen.")
    strongly_fair: list[str] = Field(
        default=[], alias="strongly-fair", description="Events that happen if they can again and again."
    )
    follows: str | None = Field(None, description="The machine by whose events the outputs are to be explained.")
    refines: str | None = Field(None, description="The machine that is to allow all that can be seen of this one.")
    overlap: int = Field(1, ge=0, le=3, description="With refines: calls in progress at a time.")
    matches_diagram: str | None = Field(
        None, alias="matches-diagram", description="The file with the drawing, beside this one."
    )
    requires: WrittenDemand | None = Field(None, description="What the fields are like that are shown with states.")


class Stated(Form):
    """A whole property file."""

    machine: str = Field(description="The model: a name, or the path of its file, beside this one.")
    define: Mapping[Name, Definition] = Field(default={}, description="Conditions, and sets of states, by name.")
    expect: WrittenCounts | None = None
    under: Mapping[str, WrittenCounts] = Field(default={}, description="The same under a profile, by its name.")
    property: Mapping[Name, WrittenProperty]
