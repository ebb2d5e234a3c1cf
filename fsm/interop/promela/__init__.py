"""Export a machine, alone or with one of its properties, to Promela for the model checker SPIN.

A single process repeatedly takes one of the machine's steps.  Each step is a ``d_step``, so that SPIN stores only the
machine's own states.  It prints its name, so that ``spin -t`` shows a readable counterexample.  A claim adds variables
besides ``state``, which are updated in the same ``d_step``.  A claim about finite runs fails with an assertion, and a
claim about infinite runs with an acceptance cycle.
"""

import textwrap
from collections.abc import Iterator
from typing import Final, assert_never

from fsm.interop.promela import products
from fsm.interop.promela.products import Product, option
from fsm.interop.promela.vocabulary import CannotExportError, PromelaNames, reached, size, steps
from fsm.machine import Machine
from fsm.machine.conditions import All, Condition, Not
from fsm.machine.property import claims

WIDTH: Final = 100


def promela(machine: Machine, stated: claims.Property | None = None, *, file: str = "") -> str:
    """Return *machine* in Promela, with the claim of *stated* if it is given, ending in a newline.

    *file* is the file name used in the commands in the header.  Raise :class:`CannotExportError` for a claim that SPIN
    cannot decide.

    >>> from fsm.language.library import load
    >>> print(promela(load("examples/models/door.toml")).splitlines()[0])
    /* door: A door
    """
    claim = stated.claim if stated else None
    words = PromelaNames(machine, [each.means for each in claims.conditions_of(claim)] if claim else ())
    product = _product(claim, words) if claim else Product(options=lambda step: [option(words, step)])
    lines = [
        *_comment(_head(machine, stated, product, file or f"{machine.name}.pml")),
        "",
        *words.definitions(),
        "",
        *product.declarations,
        f"{size(len(words.states))} state = {words.states[machine.initial]};",
        *(f"bool {begun} = false;" for begun in words.begun.values()),
        "",
        "active proctype machine() {",
        "end:",
        "   do",
        *_options(machine, words, product, codes=claim is not None),
        *(f"   {line}" if line[0] != "#" else line for line in product.others),
        "   od",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _options(machine: Machine, words: PromelaNames, product: Product, *, codes: bool) -> Iterator[str]:
    """Yield the options for each step.  If *codes* is true, there is one for each reply the claim distinguishes."""
    event = ""
    for step in steps(machine, words.codes if codes else None):
        if step.event != event:
            event = step.event
            yield f"   /* {event} */"
        yield from (f"   {each}" for each in product.options(step))
    if not event:
        yield "   :: false -> skip"


def _product(claim: claims.Claim, words: PromelaNames) -> Product:
    match claim:
        case claims.Idempotent():
            return products.idempotence_product(words, claim)
        case claims.Always(conditions=conditions, when=when):
            breaches: list[Condition] = [Not(of=each.means) for each in conditions]
            if when:
                breaches = [All(of=(when.means, each)) for each in breaches]
            return products.sequence_product(words, tuple((each,) for each in breaches))
        case claims.Never(sequences=sequences) | claims.Reachable(sequences=sequences):
            means = tuple(tuple(each.means for each in sequence) for sequence in sequences)
            until = claim.until if isinstance(claim, claims.Never) else None
            return products.sequence_product(words, means, until.means if until else None)
        case claims.LeadsTo():
            return products.leads_to_product(words, claim)
        case claims.Follows(other=other):
            return products.follows_product(words, other.partly_under(words.machine.profile))
        case claims.Refines(other=other):
            hint = "see 'fsm check', whose answer tests compare with one by brute force"
            raise CannotExportError(f"refinement of {other.name} has no form in Promela: {hint}")
        case claims.MatchesDiagram() | claims.Requires():
            drawn = isinstance(claim, claims.MatchesDiagram)
            raise CannotExportError(f"no run can {'violate a drawing' if drawn else 'show fields'}: see 'fsm check'")
        case _:
            assert_never(claim)


def _head(machine: Machine, stated: claims.Property | None, product: Product, file: str) -> Iterator[str]:
    """Yield the header: a description, the commands to run, and the expected result."""
    yield f"{machine.name}: {machine.title}"
    if stated is None:
        yield "Every state that can be reached, for SPIN (https://spinroot.com)."
    else:
        yield f"{stated.name} ({stated.level}): {stated.says}"
        yield "The machine and this property, for SPIN (https://spinroot.com)."
    yield ""
    case = "-DCASE=1 " if product.cases > 1 else ""
    yield f"  spin {case}-a {file}"
    yield f"  gcc {'-O2' if product.lasting else '-O2 -DSAFETY -DBFS'} -o pan pan.c"
    yield f"  ./pan{' -a' if product.lasting else ''}"
    if stated is not None:
        yield f"  spin {case}-t {file}   (the run that was found, if one was)"
    yield ""
    if product.cases > 1:
        yield f"The claim has {product.cases} parts: do it with each CASE from 1 to {product.cases}."
    match stated.claim if stated else None:
        case None:
            layers, transitions = reached(machine)
            yield f"Expect {sum(map(len, layers))} states, stored; {transitions + 1} transitions, of which"
            yield f"SPIN counts the start as one; depth reached {len(layers) - 1}; errors: 0."
        case claims.Reachable():
            yield "It can be reached if SPIN says 'errors: 1': an assertion fails where it is."
        case _:
            yield "It holds if SPIN says 'errors: 0'. Otherwise there is a run that breaks it."
    if not product.lasting and stated is not None:
        yield "The run is as short as there is, its last step the assertion."
    if product.lasting:
        yield "With -DSAFETY for spin, the states alone are counted."


def _comment(lines: Iterator[str]) -> Iterator[str]:
    wrapped = [
        row
        for line in lines
        for row in (textwrap.wrap(line, WIDTH, subsequent_indent="  ") if not line.startswith(" ") else [line]) or [""]
    ]
    for number, row in enumerate(wrapped):
        yield f"{' * ' if number else '/* '}{row.replace('*/', '* /')}".rstrip()
    yield " */"
