"""The vocabulary of the files that describe the log of a program (``docs/reference/log-forms.md``)."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Tag

from fsm.language.machine_file import BY_FORM, Form, Name, Text, Texts
from fsm.trace import Phase


class WrittenMeaning(Form):
    """The meaning of a line or of a word."""

    event: str | None = Field(None, description="The event, as the model names it. If empty, the line is skipped.")
    phase: Phase | None = Field(None, description="The part of a call, such as request. If empty, the whole call.")
    reply: str | None = Field(None, description="The reply of a call, such as ok.")
    shows: str | None = Field(None, description="The state that is shown after the event.")
    entity: str | None = Field(None, description="The entity.")
    of: str | None = Field(None, description="The kind of entity, such as door.")


class WrittenPattern(WrittenMeaning):
    """A regular expression, and what the lines mean that it matches."""

    match: str = Field(description="The regular expression. It matches whole lines.")


PatternTable: TypeAlias = Annotated[WrittenPattern, Tag("<table>")]
Patterns: TypeAlias = Annotated[
    Text | PatternTable | Annotated[list[Annotated[Text | PatternTable, BY_FORM]], Tag("<list>")], BY_FORM
]
EventMeaning: TypeAlias = Annotated[Text | Annotated[WrittenMeaning, Tag("<table>")], BY_FORM]


class WrittenLogForm(Form):
    """A whole form file."""

    title: str = Field("", description="The name of such a log in reports. Default: the name of the form.")
    machine: Texts = Field([], description="The models that judge the log: names, or paths relative to this file.")
    line: Patterns = Field([], description="Regular expressions with named groups. The first that matches is used.")
    paths: Mapping[Name, Texts] = Field({}, description="For JSON lines: the paths of values, as KEY.KEY or a list.")
    skip: list[str] = Field([], description="Regular expressions. Lines in which one is found are skipped knowingly.")
    entity: str = Field("", description="The entity, if the log is about only one.")
    of: str = Field("", description="The kind of entity, if the models have several.")
    time: str = Field("rfc3339", description="rfc3339, seconds (or a smaller unit), or a format such as %Y-%m-%d %H.")
    zone: str = Field("Z", pattern=r"^(Z|[+-]\d\d:\d\d)$", description="The offset of times without one, as +02:00.")
    clock: Literal["epoch", "relative"] = Field("epoch", description="The beginning of time: 1970, or any moment.")
    fresh: bool = Field(default=False, description="If true, no entity exists before the log begins.")
    unseen: list[str] = Field([], description="Signals that happen without a line.")
    events: Mapping[str, EventMeaning] = Field({}, description="The event, or the meaning, of each word for an event.")
    phases: Mapping[str, Phase] = Field({}, description="The phase of each word for a phase.")
    replies: Mapping[str, str] = Field({}, description="The reply of each word for a reply.")
    shows: Mapping[str, str] = Field({}, description="The shown state of each word for a state.")
    arguments: Mapping[Name, Literal["int", "bool", "text"]] = Field({}, description="The type of each argument.")
    fields: Mapping[Name, Literal["int", "bool", "text"]] = Field({}, description="The type of each shown value.")
