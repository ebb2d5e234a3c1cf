"""States of a machine that only the deviations of a profile reach."""

from collections.abc import Mapping

from fsm.machine import Machine
from fsm.machine.traversal import closure


def only_under(machine: Machine) -> Mapping[str, tuple[str, ...]]:
    """Return the states that only profiles reach, each with these profiles.  Unreachable states are not included.

    >>> from fsm.language.library import load
    >>> only_under(load("examples/models/washer.toml"))
    {'frozen': ('acme-2.2',)}
    """
    known = _states_reached(machine, deviations=False)
    if len(known) == len(machine.states):
        return {}
    under = {name: machine.under(name) for name in (machine.profiles if not machine.profile else (machine.profile,))}
    reached = {name: _states_reached(each, deviations=True) for name, each in under.items()}
    found = {
        state: tuple(name for name, those in reached.items() if state in those)
        for state in machine.states
        if state not in known
    }
    return {state: names for state, names in found.items() if names}


def _states_reached(machine: Machine, *, deviations: bool) -> frozenset[str]:
    def following(state: str) -> list[str]:
        ways = (machine.step(state, event, ends=ends) for event in machine.events for ends in (False, True))
        return [way.to for each in ways for way in each or () if deviations or way.deviation is None]

    return frozenset(closure([machine.initial], following))
