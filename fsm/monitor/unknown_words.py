"""Find words and values in observations that the machine does not know."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from msgspec import structs

from fsm.machine import Machine
from fsm.machine.calls.belief import Dynamics
from fsm.machine.terms import Variable
from fsm.trace import Observation, shown_parts


def understood(seen: Observation, machine: Machine, shown: Mapping[str, Variable]) -> tuple[Observation, list[str]]:
    """Return *seen* without values that are neither arguments nor *shown* variables, and the reasons for this."""
    event = machine.words().get(seen.event)
    arguments = event.arguments if event else {}
    wrong, args, fields = list[str](), dict(seen.args or {}), dict(seen.fields or {})
    for name, value in (*args.items(), *((each, fields[each]) for each in fields.keys() & shown)):
        try:
            {**shown, **arguments}[name].encoded(value)
        except (KeyError, ValueError) as error:
            (args if name in args else fields).pop(name)
            unknown = isinstance(error, KeyError)
            wrong.append(f"the machine has no argument '{name}' of '{seen.event}'" if unknown else str(error))
    return structs.replace(seen, args=args or None, fields=fields or None), wrong


def unknown_name(seen: Observation, dynamics: Dynamics) -> tuple[str, str, Iterable[str]] | None:
    """Return the kind of a name in *seen* that the machine does not have, the name, and the known names."""
    machine = dynamics.table.machine
    if seen.event and dynamics.row(seen.event) < 0:
        return "event", seen.event, machine.events
    parts = machine.states[machine.initial].parts
    shown = shown_parts(seen.shows) if parts and seen.shows else ()
    return next((("part", name, parts) for name in shown if name not in parts), None)


def unknown_text(machine: Machine, what: str, name: str, known: Iterable[str]) -> str:
    hint = "".join(f"; did you mean '{close}'?" for close in difflib.get_close_matches(name, known, n=1))
    return f"{machine.name} has no {what} '{name}'{hint}"
