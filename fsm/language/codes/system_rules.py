"""Rules for system files."""

from collections.abc import Mapping
from typing import Final

from fsm.errors import Rule

COMPOSITION: Final[Mapping[str, Rule]] = {
    "FSM701": Rule(
        finds="a machine, part, event, outcome or profile's event that does not exist",
        why="it would never take part, and the intended one is missing",
        wrong='steps = ["jb.make"]',
        right='steps = ["job.make"]',
    ),
    "FSM702": Rule(
        finds="a part or a joint event with the name of another, or of a word of conditions",
        why="a condition could mean either",
        wrong="[event.door]",
        right="[event.open]",
    ),
    "FSM703": Rule(
        finds="more than 60 copies of parts",
        why="so many cannot be explored in a lifetime, and two or three show what can go wrong",
        wrong=('count   = 9\n\n[part.child]\nmachine = "job"\nper     = "job"\ncount   = 9'),
        right=('count   = 2\n\n[part.child]\nmachine = "job"\nper     = "job"\ncount   = 2'),
    ),
    "FSM704": Rule(
        finds="a condition about what is not a state of a part",
        why="it could not be evaluated",
        wrong='heard   = "door is opne"',
        right='heard   = "door is open"',
    ),
    "FSM705": Rule(
        finds="a joint event with both steps and ways, or with neither",
        why="what it does would be unclear",
        wrong=('[event.open]\nkind  = "call"\nabout = "Open the door."'),
        right=('[event.open]\nkind  = "call"\nabout = "Open the door."\nsteps = ["door.push/opened"]'),
    ),
    "FSM706": Rule(
        finds="a signal or hidden event that replies",
        why="there is no caller",
        wrong='ways.done = { steps = ["reset every job", "door.slam"], reply = "ok" }',
        right='steps = ["reset every job", "door.slam"]',
    ),
    "FSM707": Rule(
        finds="a step that cannot be read, or that means several copies and does not say every",
        why="another part than the intended one would take it, or none",
        wrong='steps = ["job make"]',
        right='steps = ["job.make"]',
    ),
    "FSM709": Rule(
        finds="a profile that names a joint event and changes nothing of it",
        why="what was to be changed is missing",
        wrong=('[profile.late]\nabout = "Without a door."\n[profile.late.event.crash]'),
        right=('[profile.late]\nabout = "Without a door."\n[profile.late.event.crash]\nsteps = ["reset every job"]'),
    ),
}
