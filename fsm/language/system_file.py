"""The vocabulary of the files in ``models/`` that have a ``[system]``: a system as its author wrote it.

A system is several machines that step together.  As in :mod:`fsm.language.machine_file`, these classes define the words
once.  :mod:`fsm.language.build.systems` gives them meaning.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from pydantic import Field, Tag

from fsm.language.machine_file import BY_FORM, Definition, Form, Happening, Name, Reply, Text, WrittenClause
from fsm.machine import Level

MOST_COUNTED: Final = 100
"""Maximum number of copies of one part, for each copy of the part that it belongs to."""


class SystemHeader(Form):
    """The system as a whole."""

    name: Name
    title: str
    about: str
    source: str = Field(description="Where the facts come from: document and version.")
    level: Level = Field("MUST", description="Level of the joint events that have neither clause nor level.")


class WrittenPart(Form):
    """Machines of one kind in the system."""

    machine: str = Field(description="The machine: a name, or the path of its file, beside this one.")
    about: str = Field("", description="What it stands for here.")
    count: int = Field(
        1, ge=1, le=MOST_COUNTED, description="So many copies of it; with per, for each copy of that part."
    )
    per: Name | None = Field(None, description="The part to each copy of which copies of this one belong.")
    initial: Name | None = Field(None, description="The state it begins in, if it is not the machine's.")
    without: list[Name] = Field(default=[], description="Outcomes that events of it do not have here.")
    heard: str | None = Field(None, description="Its outputs are observed only while this holds.")


Step: TypeAlias = Annotated[Text | Annotated["WrittenStep", Tag("<table>")], BY_FORM]


class WrittenStep(Form):
    """One event of one part, or of every copy of it; or several steps for each copy in turn."""

    do: str | None = Field(
        None,
        description="[every] PART.EVENT[.ends][/OUTCOME[,OUTCOME]]; "
        "'reset [every] PART' takes it back to its beginning.",
    )
    each: Name | None = Field(None, description="The part for each copy of which, in turn, the steps are taken.")
    steps: list[Step] = Field(default=[], description="With each: the steps.")
    when: str | None = Field(None, description="Left out where this does not hold; with every, asked of each copy.")
    goes_on: bool = Field(default=False, alias="goes-on", description="An error reply does not end the joint event.")


class WrittenWay(Form):
    """One way in which a joint event may go: its steps, in order."""

    about: str = Field("", description="When the environment chooses it.")
    when: str | None = Field(None, description="It can go so only where this holds.")
    steps: list[Step] = Field(default=[], description="Events of parts, in order; all of them must be possible.")
    reply: Annotated[Reply | list[Reply], Field(union_mode="left_to_right")] | None = Field(
        None, description="The reply, if it is not ok, or the error of the step that ended it."
    )


class WrittenJoint(Happening):
    """What several parts do together."""

    of: Name | None = Field(None, description="The part of which each copy has an event of its own.")
    when: str | None = Field(None, description="It can happen only where this holds.")
    steps: list[Step] = Field(default=[], description="Events of parts, in order, if there is only one way.")
    ways: Mapping[Name, WrittenWay] = Field(
        default={}, description="The ways in which it may go by name, if there are several."
    )


class WrittenChange(Form):
    """What a profile changes of a joint event; all else is as without the profile."""

    about: str | None = Field(None, description="What it is for there, in a sentence.")
    clause: Name | None = Field(None, description="The clause that it rests on there.")
    when: str | None = Field(None, description="It can happen only where this holds.")
    steps: list[Step] = Field(
        default=[], description="Its only way there; it can then happen everywhere unless when is given too."
    )
    ways: Mapping[Name, WrittenWay] = Field(
        default={}, description="Ways that take the place of those of the same name, or are new."
    )
    without: list[Name] = Field(default=[], description="Ways that it does not have there.")


class WrittenVariant(Form):
    """The system otherwise: a version, or with something mended."""

    about: str
    since: str = ""
    until: str = ""
    event: Mapping[Name, WrittenChange] = Field(default={}, description="What is otherwise of joint events.")


class WrittenSystem(Form):
    """A whole system file."""

    system: SystemHeader
    part: Mapping[Name, WrittenPart]
    define: Mapping[Name, Definition] = Field(default={}, description="Conditions, and sets of states, by name.")
    event: Mapping[Name, WrittenJoint]
    clause: Mapping[Name, WrittenClause] = {}
    profile: Mapping[str, WrittenVariant] = {}
