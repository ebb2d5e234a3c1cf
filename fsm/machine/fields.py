"""Requirements on the fields of a status, which are times, numbers and texts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from fsm.machine import Clause, Deviation

FieldKind: TypeAlias = Literal["time", "int", "text"]
FieldValue: TypeAlias = int | str
ValueLists: TypeAlias = Mapping[str, Sequence[FieldValue]]

_NONE: Final[Mapping[str, FieldValue]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A requirement that a clause makes on the fields of an observation that shows one of ``states``.

    - Fields in ``set`` are neither 0 nor empty.  Fields in ``unset`` are 0 or empty.
    - ``not_before`` maps a field to another field.  If both times are set, the first may be at most ``slack``
      nanoseconds earlier than the second.
    - ``values`` maps a field to its allowed values.
    - ``iff`` maps fields to values.  Either all of these fields have one of their values, or none of them has.
    - Once a field in ``keeps`` has a value, it does not change in any of ``states`` until an interrupting event.

    The requirement applies only if every field in ``when``, and no field in ``unless``, has one of its values.
    A field that was not observed does not break any requirement.
    """

    clause: Clause
    states: frozenset[str]
    set: Sequence[str] = ()
    unset: Sequence[str] = ()
    not_before: Mapping[str, str] = field(default_factory=dict)
    slack: int = 0
    values: ValueLists = field(default_factory=dict)
    iff: ValueLists = field(default_factory=dict)
    keeps: Sequence[str] = ()
    when: ValueLists = field(default_factory=dict)
    unless: ValueLists = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the requirement on one line, in the syntax of the model language.

        >>> from fsm.language.library import load
        >>> str(load("examples/models/washer.toml").requires["washing-has-a-start"])
        'started set; finished unset'
        """
        parts = [*(f"{name} set" for name in self.set), *(f"{name} unset" for name in self.unset)]
        parts += [self._time_order_text(*pair) for pair in self.not_before.items()]
        parts += [_values_text(name, of) for name, of in self.values.items()]
        parts += [" if and only if ".join(_values_text(*each) for each in self.iff.items())] if self.iff else []
        parts += [f"{name} as before" for name in self.keeps]
        parts += [f"when {_values_text(name, of)}" for name, of in self.when.items()]
        return "; ".join([*parts, *(f"unless {_values_text(name, of)}" for name, of in self.unless.items())])

    def demands(self, seen: Mapping[str, FieldValue], before: Mapping[str, FieldValue] = _NONE) -> Iterator[Demand]:
        """Check the fields *seen*, and compare them with the earlier values *before*.  Yield the result of each check.

        >>> from fsm.language.library import load
        >>> ended = load("examples/models/washer.toml").requires["done-has-an-end"]
        >>> [(each.legal, each.holds) for each in ended.demands({"finished": 0})]
        [('finished set', False)]
        """
        if not all(_has_value(seen, name, of) for name, of in self.when.items()):
            return
        if any(name not in seen or _has_value(seen, name, of) for name, of in self.unless.items()):
            return
        for name in seen.keys() & {*self.set, *self.unset}:
            wanted = name in self.set
            legal = f"{name} {'set' if wanted else 'unset'}"
            yield Demand(fields=(name,), legal=legal, holds=(seen[name] not in {0, ""}) is wanted)
        for later, first in self.not_before.items():
            end, start = seen.get(later), seen.get(first)
            if isinstance(end, int) and isinstance(start, int) and end and start:
                legal = self._time_order_text(later, first)
                yield Demand(fields=(later, first), legal=legal, holds=end + self.slack >= start)
        for name, of in self.values.items():
            if name in seen:
                yield Demand(fields=(name,), legal=_values_text(name, of), holds=_has_value(seen, name, of))
        for name in seen.keys() & before.keys() & {*self.keeps}:
            yield Demand(fields=(name,), legal=f"{name} {before[name]}, as before", holds=seen[name] == before[name])
        if self.iff and self.iff.keys() <= seen.keys():
            legal = " if and only if ".join(_values_text(name, of) for name, of in self.iff.items())
            all_or_none = {_has_value(seen, name, of) for name, of in self.iff.items()}
            yield Demand(fields=tuple(self.iff), legal=legal, holds=len(all_or_none) == 1)

    def kept(self, seen: Mapping[str, FieldValue]) -> dict[str, FieldValue]:
        return {name: value for name, value in seen.items() if name in self.keeps and value != ""}

    def _time_order_text(self, later: str, first: str) -> str:
        return f"{later} not before {first}" + (f" by more than {self.slack / 1e9:g} s" if self.slack else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The result of checking ``fields``.  ``legal`` is the requirement in words."""

    fields: tuple[str, ...]
    legal: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """A profile's permission to break a clause about fields if each field in ``when`` has a value listed there."""

    deviation: Deviation
    when: ValueLists
    since: str = ""
    until: str = ""

    def explains(self, clause: Clause, seen: Mapping[str, FieldValue]) -> bool:
        return clause == self.deviation.clause and all(_has_value(seen, name, of) for name, of in self.when.items())


def _has_value(seen: Mapping[str, FieldValue], name: str, values: Collection[FieldValue]) -> bool:
    return name in seen and seen[name] in values


def _values_text(name: str, values: Collection[FieldValue]) -> str:
    return f"{name} {' or '.join(str(each) or 'empty' for each in values)}"
