"""A SUT that simulates a machine. Testing it against another machine shows what the tests find."""

from fsm.machine import ANY_ERROR, Machine
from fsm.machine.calls.rules import ASKED, BEGUN, Rules
from fsm.machine.table import Way, tabulate
from fsm.sut import UnsupportedError


class Simulated:
    """A SUT that behaves like *machine*. It takes the first outcome by default, and replies ok to unspecified calls.

    >>> from fsm.language.library import load
    >>> washer = Simulated(load("examples/models/washer.toml"))
    >>> washer.arrange("start", "begins"), washer.arrange("start", "failed")
    (True, True)
    >>> washer.do("start"), washer.shows()
    ('NO_WATER', 'IDLE')
    """

    def __init__(self, machine: Machine) -> None:
        self._table = tabulate(machine)
        self._rules = Rules(self._table)
        self.reset()

    def reset(self) -> None:
        self._state = self._table.initial
        self._calls: set[int] = set()
        self._out: list[str] = []
        self._wanted: list[str] = []

    def close(self) -> None:
        """Do nothing."""

    def shows(self) -> str:
        return self._table.shows[self._state]

    def outputs(self) -> tuple[str, ...]:
        out, self._out = tuple(self._out), []
        return out

    def arrange(self, event: str, outcome: str) -> bool:
        row = self._table.row.get(event)
        if row is None:
            return False
        end = self._table.end.get(row, row)
        if self._wanted:  # for a later stage, whose state is not known yet
            cells = [(end, state) for state in range(len(self._table.states))]
        else:
            cells = [(each, self._state) for each in {row, end if row in self._calls else row}]
        self._wanted.append(outcome)
        return any(way.name == outcome for each, state in cells for way in self._table.step(state, each) or ())

    def do(self, event: str) -> str:
        row = self._row(event)
        way = self._take(row)
        while way is not None and way.begins:
            way = self._take(row, BEGUN)
        self._wanted.clear()
        return self._reply(row, way)

    def begin(self, event: str) -> str | None:
        return self._stage(self._row(event), ASKED)

    def end(self, event: str) -> str | None:
        row = self._row(event)
        if row not in self._calls:
            raise UnsupportedError(f"{event} is not in progress")
        return self._stage(row, BEGUN)

    def _stage(self, row: int, stage: int) -> str | None:
        way = self._take(row, stage)
        self._wanted.clear()
        if way is not None and way.begins:
            self._calls.add(row)
            return None
        if stage == BEGUN:
            self._calls.discard(row)
        return self._reply(row, way)

    def _row(self, event: str) -> int:
        if event not in self._table.row:
            raise UnsupportedError(f"{self._table.machine.name} has no event {event!r}")
        return self._table.row[event]

    def _take(self, row: int, stage: int = ASKED) -> Way | None:
        """Advance a call or event of *row* by one instant. If that is unspecified, do nothing and return ``None``."""
        if stage == ASKED and self._table.step(self._state, row) == ():
            message = f"{self._table.rows[row].name} cannot happen in state {self._table.states[self._state]}"
            raise UnsupportedError(message)
        instants = self._rules.instants(self._state, row, stage)
        if instants[0].way is None:
            return None
        wanted = self._wanted.pop(0) if self._wanted and len(instants) > 1 else ""
        instant = next((each for each in instants if each.way and each.way.name == wanted), instants[0])
        if self._rules.interrupts(row):
            self._calls.clear()
        self._state = instant.to
        self._out += instant.emits
        return instant.way

    def _reply(self, row: int, way: Way | None) -> str:
        if self._table.rows[row].event.kind != "call":
            return ""
        code = way.reply[0] if way else "ok"
        return "UNKNOWN" if code == ANY_ERROR else code
