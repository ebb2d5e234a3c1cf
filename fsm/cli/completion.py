"""Shell completion of the word being typed: names that fit the rest of the command line, or files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import click

from fsm import cli
from fsm.command_options import completer, models_named
from fsm.errors import InputError
from fsm.language.library import claims, load, names, systems
from fsm.machine.product.system import System

complete_commands: Final = completer(lambda _: cli.commands())
complete_models: Final = completer(lambda _: names(), files=True)
complete_models_and_systems: Final = completer(lambda _: (*names(), *systems()), files=True)


@completer
def complete_events(ctx: click.Context) -> Iterator[str]:
    """Yield the events of the models on the command line. For systems, yield the families of joint events."""
    for model in models_named(ctx):
        yield from (joint.family for joint in model.events.values()) if isinstance(model, System) else model.events


@completer
def complete_states(ctx: click.Context) -> Iterator[str]:
    """Yield the states of the models on the command line, except for systems."""
    for model in models_named(ctx):
        if not isinstance(model, System):
            yield from model.states


@completer
def complete_properties(ctx: click.Context) -> Iterator[str]:
    """Yield the properties of the models on the command line, or of all shipped models if there are none."""
    for model in tuple(models_named(ctx)) or map(load, names()):
        try:
            yield from (stated.name for stated in claims(model.path).properties)
        except InputError:
            continue


@completer
def complete_codes(_: click.Context) -> Iterable[str]:
    """Return the codes of all rules."""
    from fsm.language.codes import RULES  # noqa: PLC0415  (loading them takes longer than everything else here)

    return RULES


@completer
def complete_suts(_: click.Context) -> Iterable[str]:
    """Return the ways to name a system under test, up to their colons."""
    from fsm.conformance.lookup import forms  # noqa: PLC0415  (only for --against)

    return (f"{form.partition(':')[0]}:" if ":" in form else form for form in forms())
