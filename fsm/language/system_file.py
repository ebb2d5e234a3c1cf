"""The vocabulary of files with a ``[system]``, several machines that step together (see :mod:`.machine_file`)."""

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from pydantic import Field, Tag

from fsm.language.machine_file import BY_FORM, Definition, Form, Happening, Name, Replies, Text, WrittenClause
from fsm.machine import Level

MOST_COUNTED: Final = 100  # maximum number of copies of one part, for each copy of the part that it belongs to


class SystemHeader(Form):
    """The system as a whole."""

    name: Name
    title: str
    about: str
    source: str = Field(description="Where the facts come from: document and version.")
    level: Level = Field("MUST", description="Level of joint events that have neither a clause nor a level.")


class WrittenPart(Form):
    """A part of the system: one or more copies of a machine."""

    machine: str = Field(description="The machine: a name, or a path relative to this file.")
    about: str = Field("", description="What it represents here.")
    count: int = Field(1, ge=1, le=MOST_COUNTED, description="Number of copies; with per, for each copy of that part.")
    per: Name | None = Field(None, description="The part to whose copies the copies of this one belong.")
    initial: Name | None = Field(None, description="Its initial state. Default: the machine's.")
    without: list[Name] = Field(default=[], description="Outcomes that its events do not have here.")
    heard: str | None = Field(None, description="Its outputs are observed only while this holds.")


Step: TypeAlias = Annotated[Text | Annotated["WrittenStep", Tag("<table>")], BY_FORM]


class WrittenStep(Form):
    """An event of a part, or of every copy of it, or several steps for each copy in turn."""

    do: str | None = Field(None, description="[every] PART.EVENT[.ends][/OUTCOME[,OUTCOME]], or: reset [every] PART.")
    each: Name | None = Field(None, description="The part for whose copies, in turn, the steps are taken.")
    steps: list[Step] = Field(default=[], description="With each: the steps.")
    when: str | None = Field(None, description="Skip the step unless this holds; with every, for each copy.")
    goes_on: bool = Field(default=False, alias="goes-on", description="If true, continue after an error reply.")


class WrittenWay(Form):
    """A possible course of a joint event: its steps, in order."""

    about: str = Field("", description="When the environment chooses it.")
    when: str | None = Field(None, description="This way is possible only if this holds.")
    steps: list[Step] = Field(default=[], description="Events of parts, in order. All must be possible.")
    reply: Replies | None = Field(None, description="The reply. Default: the error of the last step, or ok.")


class WrittenJoint(Happening):
    """An event in which several parts take part."""

    of: Name | None = Field(None, description="The part whose copies each have their own event.")
    when: str | None = Field(None, description="It can happen only if this holds.")
    steps: list[Step] = Field(default=[], description="Events of parts, in order, if there is only one way.")
    ways: Mapping[Name, WrittenWay] = Field(default={}, description="Its possible ways by name, if there are several.")


class WrittenChange(Form):
    """The changes of a profile to a joint event."""

    about: str | None = Field(None, description="Its purpose there, in a sentence.")
    clause: Name | None = Field(None, description="The clause that it rests on there.")
    when: str | None = Field(None, description="It can happen only if this holds.")
    steps: list[Step] = Field(default=[], description="The steps of its only way there. They also replace when.")
    ways: Mapping[Name, WrittenWay] = Field(default={}, description="Ways that are added or replaced.")
    without: list[Name] = Field(default=[], description="Ways that it does not have there.")


class WrittenVariant(Form):
    """A variant of the system, such as a version or a fix."""

    about: str
    since: str = ""
    until: str = ""
    event: Mapping[Name, WrittenChange] = Field(default={}, description="Changed joint events.")


class WrittenSystem(Form):
    """A whole system file."""

    system: SystemHeader
    part: Mapping[Name, WrittenPart]
    define: Mapping[Name, Definition] = Field(default={}, description="Conditions, and sets of states, by name.")
    event: Mapping[Name, WrittenJoint]
    clause: Mapping[Name, WrittenClause] = {}
    profile: Mapping[str, WrittenVariant] = {}
