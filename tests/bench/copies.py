"""Measure the time to check systems with interchangeable copies.

    python tests/bench/copies.py [--system nri-plugin-contract] [--part container] [--most 5]

Three searches are compared: through all states, through representatives only, and for any number of copies. They take
turns in one process and decide all ``always`` and ``never`` claims without a profile, starting with three copies of
the part. Times are CPU seconds on one core, without compilation.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import patch

from fsm.checker import examine, packing
from fsm.checker.any_number import examine_any
from fsm.language.library import claims, composed
from fsm.machine.claims import Always, Never, is_of
from fsm.machine.evidence import Proved
from fsm.machine.product.system import System

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.machine.evidence import Examined


def taken(asked: Callable[[], Examined]) -> tuple[Examined, float]:
    begin = time.process_time()
    found = asked()
    return found, time.process_time() - begin


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", default="nri-plugin-contract")
    parser.add_argument("--part", default="container")
    parser.add_argument("--most", type=int, default=5)
    asked = parser.parse_args()
    stated = claims(asked.system)
    if not is_of(stated, System):
        parser.error(f"{asked.system} is no system")
    names = [each.name for each in stated.properties if isinstance(each.claim, Always | Never)]
    tell(f"{asked.system}, {len(names)} claims   all states          seconds   representatives   seconds   ratio")
    for count in range(2, asked.most + 1):
        of = composed(stated, {asked.part: count})
        found = []
        for most in (10**18, 0):
            with patch.object(packing, "FEW", most):
                found.append(taken(partial(examine, of, only=names)))
        (whole, slow), (folded, quick) = found
        if count > 2 and whole.counts and folded.counts:  # the searches with two copies include compilation
            tell(
                f"{count:>3} of {asked.part:<24}{whole.counts.states:>16,}{slow:>15.2f}"
                f"{folded.counts.representatives or 0:>18,}{quick:>10.2f}{slow / quick:>8.1f}"
            )
    examined, seconds = taken(
        partial(examine_any, lambda count: composed(stated, {asked.part: count}), asked.part, only=names)
    )
    held = sum(isinstance(each.verdict, Proved) for each in examined.checked)
    tell(f"any of {asked.part:<24}{held} of {len(names)} hold of any number, in {seconds:.2f} s")


if __name__ == "__main__":
    main()
