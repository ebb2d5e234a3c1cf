"""Shell completion of the word being typed: names that fit the rest of the command line, or files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

import click
from click.shell_completion import CompletionItem

from fsm import cli
from fsm.errors import InputError
from fsm.language.library import claims, is_system, load, load_system, names, systems
from fsm.machine.product.system import System

if TYPE_CHECKING:
    from fsm.machine import Machine

Offered: TypeAlias = list[str | CompletionItem]
Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], Offered]

"""Prefixes of the names of systems under test, one for each kind."""


def _offer(found: Callable[[click.Context], Iterable[str]], *, files: bool = False) -> Completer:
    """Return a completer for the names *found*. If none of them matches and *files* is true, it offers file names."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Offered:
        del param
        offered: Offered = [each for each in dict.fromkeys(found(ctx)) if each.lower().startswith(incomplete.lower())]
        return offered or ([CompletionItem(incomplete, type="file")] if files else [])

    return complete


def _named(ctx: click.Context) -> Iterator[Machine | System]:
    # click stops parsing at an option without a value, and leaves the arguments before it in ctx.args.
    for each in (*ctx.params.values(), *ctx.args):
        for name in each if isinstance(each, tuple) else (each,):
            if isinstance(name, str) and (name in names() or name in systems() or name.endswith(".toml")):
                try:
                    yield load_system(name) if is_system(name) else load(name)
                except InputError:
                    continue


@_offer
def profiles(ctx: click.Context) -> Iterator[str]:
    """Yield the profiles of the models on the command line, or of all bundled models if there are none."""
    for each in tuple(_named(ctx)) or map(load, names()):
        yield from each.profiles


@_offer
def events(ctx: click.Context) -> Iterator[str]:
    """Yield the events of the models on the command line. For systems, yield the families of joint events."""
    for each in _named(ctx):
        yield from (joint.family for joint in each.events.values()) if isinstance(each, System) else each.events


@_offer
def states(ctx: click.Context) -> Iterator[str]:
    """Yield the states of the models on the command line, except for systems."""
    for each in _named(ctx):
        if not isinstance(each, System):
            yield from each.states


@_offer
def properties(ctx: click.Context) -> Iterator[str]:
    """Yield the properties of the models on the command line, or of all bundled models if there are none."""
    for each in tuple(_named(ctx)) or map(load, names()):
        try:
            yield from (stated.name for stated in claims(each.path).properties)
        except InputError:
            continue


@_offer
def codes(_: click.Context) -> Iterable[str]:
    """Return the codes of all rules."""
    from fsm.language.codes import RULES  # noqa: PLC0415  (loading them takes longer than everything else here)

    return RULES


commands: Final = _offer(lambda _: cli.commands())
models: Final = _offer(lambda _: names(), files=True)
models_and_systems: Final = _offer(lambda _: (*names(), *systems()), files=True)


@_offer
def suts(_: click.Context) -> Iterable[str]:
    """Return the ways to name a system under test, up to their colons."""
    from fsm.conformance.lookup import forms  # noqa: PLC0415  (only for --against)

    return (f"{each.partition(':')[0]}:" if ":" in each else each for each in forms())
