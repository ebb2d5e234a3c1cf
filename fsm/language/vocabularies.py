"""The vocabularies of property, system and fault files, and schemas of all input files.

The vocabulary of models is in :mod:`.machine_file`. Editors use the vocabularies as JSON Schema, and error messages
use them for hints.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import Field, StringConstraints, Tag

from fsm.language.form_file import WrittenLogForm
from fsm.language.machine_file import (
    BY_FORM,
    Cited,
    Code,
    Definition,
    Form,
    Happening,
    Name,
    Reply,
    ReplyOrList,
    StateKey,
    Text,
    Texts,
    Titled,
    Written,
    WrittenClause,
    WrittenDemand,
)
from fsm.language.names import ErrorCode
from fsm.machine import Level
from fsm.machine.claims import NO_PROFILE

Conditions: TypeAlias = Texts  # one condition, or several conditions about which the same claim is made


class WrittenCounts(Form):
    """The expected size of the state space.  A different size means that the meaning of the model has changed."""

    states: int = Field(ge=1, description="Reachable states.")
    transitions: int = Field(ge=0, description="Possible outcomes in these states.")
    depth: int = Field(ge=0, description="Steps to the most distant state.")


class WrittenFailure(Form):
    """A property that is known not to hold."""

    under: Texts = Field(
        NO_PROFILE,
        description="Profiles under which the property fails; 'none' means without a profile, '*' means always.",
    )
    alone: bool = Field(
        default=False, description="If true, the property does not fail under profiles that extend these."
    )
    about: str = Field(description="What is wrong under these profiles.")
    length: int = Field(ge=0, description="Number of steps of the shortest counterexample.")
    link: str = Field("", description="The address of a discussion of the failure.")


Failures: TypeAlias = Annotated[
    Annotated[WrittenFailure, Tag("<table>")] | Annotated[list[WrittenFailure], Tag("<list>")], BY_FORM
]


class WrittenProperty(Cited):
    """A property: a sentence, its source, and exactly one claim."""

    says: str = Field(description="The property in a sentence, in your own words.")
    link: str = ""
    catches: list[str] = Field(default=[], description="Mutants of the machine that break the property.")
    fails: Failures = Field(default=[], description="The known failures of the property.")

    for_: str | None = Field(
        None, alias="for", description="The part of a system for each copy of which the property is claimed."
    )
    idempotent: Name | None = Field(None, description="A call that changes nothing if it is repeated immediately.")
    once: str | None = Field(None, description="With 'idempotent': the condition that must hold after the first call.")
    always: Conditions | None = Field(None, description="A condition that holds at every instant.")
    when: str | None = Field(None, description="With 'always': the condition that selects the instants.")
    never: Conditions | None = Field(
        None, description="A condition that holds at no instant, or a sequence that happens in no run."
    )
    until: str | None = Field(None, description="With 'never': the condition at which the sequence starts over.")
    reachable: Conditions | None = Field(None, description="A condition or a sequence that happens in some run.")
    from_each: list[StateKey] = Field(
        default=[],
        alias="from-each",
        description="With 'reachable': the states before its first step; '*' means all states.",
    )
    leads_to: str | None = Field(None, alias="leads-to", description="A condition that holds sooner or later.")
    from_: str | None = Field(
        None, alias="from", description="With 'leads-to': the condition after which the other one must hold."
    )
    fair: list[str] = Field(default=[], description="Events that are assumed to happen if they stay possible.")
    strongly_fair: list[str] = Field(
        default=[],
        alias="strongly-fair",
        description="Events that are assumed to happen if they become possible again and again.",
    )
    follows: str | None = Field(None, description="The machine whose events explain the outputs.")
    refines: str | None = Field(None, description="The machine that allows all observable behaviour of this one.")
    overlap: int = Field(1, ge=0, le=3, description="With 'refines': the maximum number of calls in progress.")
    matches_diagram: str | None = Field(None, alias="matches-diagram", description="The file that has the drawing.")
    requires: WrittenDemand | None = Field(None, description="A requirement on the fields of a status.")


class Stated(Form):
    """A whole property file."""

    machine: str = Field(description="The model: a name, or a path relative to this file.")
    define: Mapping[Name, Definition] = Field(default={}, description="Conditions and sets of states, by name.")
    expect: WrittenCounts | None = None
    under: Mapping[str, WrittenCounts] = Field(default={}, description="The expected size under each profile.")
    property: Mapping[Name, WrittenProperty]


MOST_COUNTED: Final = 100  # maximum number of copies of a part for each copy of its owner


class SystemHeader(Titled):
    """The system as a whole."""

    level: Level = Field("MUST", description="Level of joint events that have neither a clause nor a level.")


class WrittenPart(Form):
    """A part of the system: one or more copies of a machine."""

    machine: str = Field(description="The machine: a name, or a path relative to this file.")
    about: str = Field("", description="The thing that the part represents in this system.")
    count: int = Field(
        1, ge=1, le=MOST_COUNTED, description="The number of copies; with 'per', the number for each copy of that part."
    )
    per: Name | None = Field(None, description="The part to whose copies the copies of this one belong.")
    initial: Name | None = Field(
        None, description="The initial state of the part. Default: the initial state of its machine."
    )
    without: list[Name] = Field(
        default=[], description="Outcomes that the events of the part do not have in this system."
    )
    heard: str | None = Field(None, description="The condition under which the outputs of the part are observed.")


Step: TypeAlias = Annotated[Text | Annotated["WrittenStep", Tag("<table>")], BY_FORM]


class WrittenStep(Form):
    """A step of a joint event: an event in one copy or in all copies of a part, or steps for each copy in turn."""

    do: str | None = Field(None, description="[every] PART.EVENT[.ends][/OUTCOME[,OUTCOME]], or: reset [every] PART.")
    each: Name | None = Field(None, description="The part for whose copies, in turn, the steps are taken.")
    steps: list[Step] = Field(default=[], description="With 'each': the steps for each copy.")
    when: str | None = Field(
        None, description="The step is skipped unless this condition holds; with 'every', for each copy."
    )
    goes_on: bool = Field(
        default=False, alias="goes-on", description="If true, the event continues after an error reply."
    )


class WrittenWay(Form):
    """A possible course of a joint event: its steps, in order."""

    about: str = Field("", description="The situation in which the environment chooses this way.")
    when: str | None = Field(None, description="This way is possible only if this holds.")
    steps: list[Step] = Field(default=[], description="The events of parts, in order. All of them must be possible.")
    reply: ReplyOrList | None = Field(None, description="The reply. Default: the error of the last step, or ok.")


class WrittenJoint(Happening):
    """An event of a system, made up of events of its parts."""

    of: Name | None = Field(None, description="The part whose copies each have their own event.")
    when: str | None = Field(None, description="It can happen only if this holds.")
    steps: list[Step] = Field(default=[], description="The events of parts, in order, if the event has only one way.")
    ways: Mapping[Name, WrittenWay] = Field(
        default={}, description="The possible ways of the event by name, if there are several."
    )


class WrittenChange(Form):
    """The changes of a profile to a joint event."""

    about: str | None = Field(None, description="The purpose of the event under the profile, in a sentence.")
    clause: Name | None = Field(None, description="The clause that justifies the event under the profile.")
    when: str | None = Field(None, description="It can happen only if this holds.")
    steps: list[Step] = Field(
        default=[], description="The steps of the only way of the event under the profile. They also replace 'when'."
    )
    ways: Mapping[Name, WrittenWay] = Field(default={}, description="Ways that are added or replaced.")
    without: list[Name] = Field(default=[], description="Ways that the event does not have under the profile.")


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


MethodPattern: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^(\*|[A-Z][A-Za-z0-9]*|/[A-Za-z0-9_.]+/[A-Za-z0-9]+)$")
]
"""A pattern for methods: ``OpenDoor``, the full path ``/house.v1.Doors/OpenDoor``, or ``*`` for any method."""


class WrittenFault(Form):
    """A fault, and the calls that it affects."""

    method: MethodPattern = Field(description="The method: its name, its full path, or * for any method.")
    id: str | None = Field(None, min_length=1, description="Affect only calls on the entity whose id begins with this.")
    nth: int | None = Field(None, ge=1, description="Affect only this matching call, counted from 1.")
    every: int | None = Field(None, ge=1, description="Affect only every Nth matching call.")
    probability: float | None = Field(None, ge=0, le=1, description="Affect each matching call with this probability.")
    seed: int = Field(0, description="Seed of the random choices; they are the same in every run.")
    do: Literal["delay", "lose-reply", "fail", "cancel"] = Field(description="What the proxy does to the call.")
    when: Literal["before", "after"] = Field(
        "before", description="With delay and fail: before the server is called, or after it has answered."
    )
    milliseconds: int = Field(0, ge=0, le=86_400_000, description="The delay, or the time until the call is cancelled.")
    code: ErrorCode = Field("UNAVAILABLE", description="Error code of a failed call.")
    message: str = Field("injected by fsm proxy", description="Message of a failed call.")


class WrittenFaults(Form):
    """A list of faults.  Only the first fault that matches a call is injected."""

    fault: list[WrittenFault] = Field(min_length=1, description="The faults; the first that matches a call happens.")


_Node = dict[str, Any]

_PHRASES: Final[Mapping[str, str]] = {
    get_args(kind)[1].pattern: phrase
    for kind, phrase in (
        (Name, "a name of letters, digits, '_', '.' and '-'"),
        (StateKey, "the name of a state, or '*' for every state that is not mentioned"),
        (Code, "an error reply in capitals, such as NOT_FOUND, or 'error' for any"),
        (MethodPattern, "the name of a method, its whole path, or '*' for every one"),
        (Reply, "'ok', an error reply in capitals, such as NOT_FOUND, or 'error' for any"),
    )
}


_TITLES: Final[Mapping[type[Form], tuple[str, str]]] = {
    Written: (
        "model",
        "An executable specification of a lifecycle: its states, and the effect of each event in each state.",
    ),
    WrittenSystem: ("system", "Machines that step together: the parts, and their joint events."),
    Stated: ("property", "Properties of a lifecycle, each with its source."),
    WrittenLogForm: ("form", "How to read the log of a program: its lines, and the meaning of their words."),
    WrittenFaults: ("faults", "The calls that 'fsm proxy --rules' delays, fails or cancels."),
}


def schema(form: type[Form] = Written) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the kind of file that *form* describes. It does not check names.

    >>> schema()["required"]
    ['machine', 'states', 'event']
    """
    name, about = _TITLES[form]
    written = _tidy(form.model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:container-fsm:{name}:1",
        "title": f"fsm {name}",
        "description": about,
        **{key: value for key, value in written.items() if key not in {"description", "$defs"}},
        "$defs": {word: _tidy(node) for word, node in written["$defs"].items()},
    }


def _tidy(node: _Node) -> _Node:
    tidy = {key: value for key, value in node.items() if key not in {"title", "anyOf", "oneOf"}}
    # Drop null, because TOML has no null. A word without a value is simply not written.
    ways = [_tidy(each) for each in (*node.get("anyOf", ()), *node.get("oneOf", ())) if each != {"type": "null"}]
    if len(ways) == 1:
        tidy = {**ways[0], **tidy}
    elif ways:
        tidy["oneOf"] = ways
    if tidy.get("default", ...) is None:
        del tidy["default"]
    for key in ("properties", "patternProperties"):
        if key in tidy:
            tidy[key] = {name: _tidy(below) for name, below in tidy[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(tidy.get(key), dict):
            tidy[key] = _tidy(tidy[key])
    if "patternProperties" in tidy:
        tidy["additionalProperties"] = False
    if tidy.get("pattern") in _PHRASES:
        tidy.setdefault("description", _PHRASES[tidy["pattern"]])
    return tidy


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The words and values that the language allows at a path of keys, such as ``("event", "push", "kind")``."""

    root: Mapping[str, Any] = field(default_factory=schema)

    def words(self, *path: str | int) -> tuple[str, ...]:
        """Return the words that a table at *path* may have, unless the author of the file chooses the names.

        >>> Vocabulary().words("states", "open")
        ('about', 'shows', 'kind', 'aliases', 'in', 'initial', 'history')
        """
        return tuple(dict.fromkeys(word for form in self._schemas_at(path) for word in form.get("properties", {})))

    def values(self, *path: str | int) -> tuple[str, ...]:
        """Return the values that are allowed at *path*, if the vocabulary lists them.

        >>> Vocabulary().values("event", "push", "kind")
        ('call', 'signal', 'hidden')
        """
        return tuple(value for form in self._schemas_at(path) for value in form.get("enum", ()))

    def expected(self, *path: str | int) -> str:
        """Return a description of the expected value at *path*, which fits at the end of a sentence.

        >>> Vocabulary().expected("machine", "about")
        'text in quotes'
        """
        return self._alternatives_text(self._schemas_at(path))

    def names(self, *path: str | int) -> str:
        return ", or ".join(
            _PHRASES[each] for form in self._schemas_at(path) for each in form.get("patternProperties", ())
        )

    def _schemas_at(self, path: tuple[str | int, ...]) -> list[_Node]:
        here = list(self._forms(self.root))
        for part in path:
            here = [form for node in here for below in _schemas_below(node, part) for form in self._forms(below)]
        return here

    def _forms(self, node: Mapping[str, Any]) -> Iterator[_Node]:
        if "$ref" in node:
            yield from self._forms(self.root["$defs"][node["$ref"].removeprefix("#/$defs/")])
        elif "oneOf" in node:
            for each in node["oneOf"]:
                yield from self._forms(each)
        else:
            yield dict(node)

    def _alternatives_text(self, forms: Iterable[_Node]) -> str:
        phrases: list[str] = []
        for phrase in map(self._phrase, forms):
            phrases.append("a list of them" if phrase.removeprefix("a list, each entry ") in phrases else phrase)
        return ", or ".join(phrases)

    def _phrase(self, form: _Node) -> str:
        match form:
            case {"enum": values}:
                return f"one of {', '.join(map(repr, values))}"
            case {"type": "string"}:
                return _PHRASES.get(form.get("pattern", ""), "text in quotes")
            case {"type": "array", "items": items}:
                return f"a list, each entry {self._alternatives_text(self._forms(items))}"
            case {"type": "boolean"}:
                return "true or false"
            case {"type": "integer" | "number" as kind}:
                number = "a whole number" if kind == "integer" else "a number"
                match form:
                    case {"minimum": least, "maximum": most}:
                        return f"{number} from {least} to {most:,}"
                    case {"minimum": least}:
                        return f"{number}, at least {least}"
                return number
            case _:
                return "a table"


def _schemas_below(form: _Node, part: str | int) -> Iterator[_Node]:
    if isinstance(part, int):
        if "items" in form:
            yield form["items"]
    elif part in form.get("properties", {}):
        yield form["properties"][part]
    else:
        yield from form.get("patternProperties", {}).values()
        if isinstance(form.get("additionalProperties"), dict):
            yield form["additionalProperties"]
