"""Choose representatives among packed states that differ only by exchanging interchangeable copies.

This is the compiled counterpart of :meth:`fsm.machine.product.symmetry.Orbits.representative`.
"""

from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from fsm.checker.packed.expansion import Words
from fsm.checker.packed.programs import StateVector
from fsm.compiled import Number, Numbers, lean_inner
from fsm.machine.product.symmetry import Orbits


def written_orbits(orbits: Orbits | None, vector: StateVector) -> Numbers:
    """Encode *orbits* as integers.

    The number of groups comes first.  For each group, the array has the number of members, the number of fields of a
    member, and the word, shift and mask of each field.
    """
    groups = orbits.groups if orbits else ()
    found = [len(groups)]
    for group in groups:
        found += [len(group), len(group[0])]
        for member in group:
            for digit in member:
                at = vector.fields[digit]
                found += [at.word, at.shift, at.mask]
    return np.array(found, np.int64)


def unfolded(orbits: Orbits, vector: StateVector, words: Words, degrees: NDArray[np.uint32]) -> tuple[int, int]:
    """Return the number of states that the representatives stand for, and the number of steps of those states.

    *words* holds the states of the representatives, and *degrees* the number of steps of each.
    """

    def locals_(digit: int) -> Words:
        at = vector.fields[digit]
        return words[:, at.word] >> np.uint64(at.shift) & np.uint64(at.mask)

    def alike(one: tuple[int, ...], two: tuple[int, ...]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.all([locals_(a) == locals_(b) for a, b in zip(one, two, strict=True)], axis=0)
        return found

    neighbours = np.stack([alike(*pair) for group in orbits.groups for pair in pairwise(group)], axis=1)
    kinds, of, counts = np.unique(neighbours, axis=0, return_inverse=True, return_counts=True)
    steps = np.bincount(of.ravel(), weights=degrees, minlength=len(kinds))
    states, transitions = 0, 0
    for kind, count, taken in zip(kinds.tolist(), counts.tolist(), steps.tolist(), strict=True):
        each = iter(kind)
        size = orbits.size([list(islice(each, len(group) - 1)) for group in orbits.groups])
        states, transitions = states + size * count, transitions + size * int(taken)
    return states, transitions


@lean_inner
def represent(orbits: Numbers, words: Words, at: Number) -> None:
    """Sort the members of each group in the state that begins at index *at* of *words*."""
    place: Number = 1
    for _ in range(orbits[0]):
        size = 3 * orbits[place + 1]
        first = place + 2
        place = first + orbits[place] * size
        for begin in range(first + size, place, size):
            here = begin
            while here > first and _before(orbits, words, at, here, here - size, size):
                _exchange(orbits, words, at, here, here - size, size)
                here -= size


@lean_inner
def _local(orbits: Numbers, words: Words, at: Number, field: Number) -> np.uint64:
    local: np.uint64 = (words[at + orbits[field]] >> np.uint64(orbits[field + 1])) & np.uint64(orbits[field + 2])
    return local


@lean_inner
def _before(orbits: Numbers, words: Words, at: Number, one: Number, two: Number, size: Number) -> bool:
    for each in range(0, size, 3):
        left, right = _local(orbits, words, at, one + each), _local(orbits, words, at, two + each)
        if left != right:
            return bool(left < right)
    return False


@lean_inner
def _exchange(orbits: Numbers, words: Words, at: Number, one: Number, two: Number, size: Number) -> None:
    for each in range(0, size, 3):
        left, right = _local(orbits, words, at, one + each), _local(orbits, words, at, two + each)
        _put(orbits, words, at, one + each, right)
        _put(orbits, words, at, two + each, left)


@lean_inner
def _put(orbits: Numbers, words: Words, at: Number, field: Number, local: np.uint64) -> None:
    shift = np.uint64(orbits[field + 1])
    words[at + orbits[field]] = (words[at + orbits[field]] & ~(np.uint64(orbits[field + 2]) << shift)) | local << shift
