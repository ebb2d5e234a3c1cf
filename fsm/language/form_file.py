"""The vocabulary of the files that describe the log of a program (``docs/reference/log-forms.md``)."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Tag

from fsm.language.machine_file import BY_FORM, Form, Name, Text, Texts
from fsm.trace import Phase

Kind: TypeAlias = Annotated[
    Annotated[Literal["int", "bool", "text"], Tag("<text>")]
    | Annotated[Mapping[str, int | bool | str], Tag("<table>")],
    BY_FORM,
]


class WrittenMeaning(Form):
    """What a line means, if the line itself does not say it."""

    event: str | None = Field(None, description="The event, by its name in the model. Empty: the line is skipped.")
    phase: Phase | None = Field(None, description="The part of a call: 'request', 'reply', or empty for a whole call.")
    reply: str | None = Field(None, description="The reply of a call, such as ok.")
    shows: str | None = Field(None, description="The state that the line shows, after the event.")
    met: str | None = Field(None, description="The state in which the call was executed.")
    output: str | None = Field(None, description="An output that the line shows.")
    entity: str | None = Field(None, description="The entity, if the log is about only one.")
    of: str | None = Field(None, description="The kind of entity.")


class WrittenPattern(WrittenMeaning):
    """A regular expression for lines, and what all these lines mean."""

    match: str = Field(description="The regular expression, which matches the whole line.")


Pattern: TypeAlias = Annotated[Text | Annotated[WrittenPattern, Tag("<table>")], BY_FORM]
Patterns: TypeAlias = Annotated[
    Text | Annotated[WrittenPattern, Tag("<table>")] | Annotated[list[Pattern], Tag("<list>")], BY_FORM
]
Meaning: TypeAlias = Annotated[Text | Annotated[WrittenMeaning, Tag("<table>")], BY_FORM]


class WrittenLogForm(Form):
    """A whole form file."""

    title: str = Field("", description="The name of such a log in reports. Default: the name of the form.")
    about: str = Field("", description="A description of the log.")
    machine: Texts = Field([], description="The models that judge the log: names, or paths relative to this file.")
    line: Patterns = Field([], description="Regular expressions with named groups; the first that matches is used.")
    paths: Mapping[Name, Texts] = Field(
        {}, description="For JSON lines: the path of each value, as KEY.KEY or a list of keys."
    )
    skip: Texts = Field([], description="Regular expressions that find lines which are skipped knowingly.")
    entity: str = Field("", description="The entity, if the log is about only one.")
    of: str = Field("", description="The kind of entity, if the models have several.")
    time: str = Field("rfc3339", description="'rfc3339', 'seconds' (or smaller units), or a format such as %H:%M.")
    zone: str = Field("Z", pattern=r"^(Z|[+-]\d\d:\d\d)$", description="The offset of times that have none: +02:00.")
    clock: Literal["epoch", "relative"] = Field("epoch", description="Whether numbers count from 1970.")
    fresh: bool = Field(default=False, description="If true, no entity exists before the log begins.")
    unseen: list[str] = Field([], description="Signals that happen without a line.")
    events: Mapping[str, Meaning] = Field({}, description="The event, or the meaning, of each word for an event.")
    phases: Mapping[str, Phase] = Field({}, description="The phase of each word for a phase.")
    replies: Mapping[str, str] = Field({}, description="The reply of each word for a reply.")
    shows: Mapping[str, str] = Field({}, description="The shown state of each word for a state.")
    arguments: Mapping[Name, Kind] = Field(
        {}, description="The groups that are arguments of the event: 'int', 'bool', 'text', or a table of words."
    )
